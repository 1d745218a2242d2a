import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Redundant audio (RFC 2198): what is written, what is read, and what the receiving side does with the copies.
@Suite(.timeLimit(.minutes(1)))
struct RedundantAudioTests {
    private static let redundancy = AudioRedundancy(payloadType: 63, mediaType: 111)
    /// The first byte of a header of Opus that another one follows.
    private static let copy: UInt8 = 0x80 | 111

    private static func opus(_ number: Int, _ payload: [UInt8], marker: UInt8 = 0, step: Int = 960) -> [UInt8] {
        let (high, low) = (UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number))
        return [0x80, marker | 111, high, low] + UInt32(truncatingIfNeeded: number * step).bytes + UInt32(5).bytes
            + payload
    }

    private static func payload(_ number: Int) -> [UInt8] {
        [0xf8] + (0..<number % 7 + 1).map { UInt8(truncatingIfNeeded: number + $0) }
    }

    private static func blocks(_ payload: [UInt8]) -> [RedundantAudio.Block]? {
        payload.withUnsafeBytes { RedundantAudio.blocks(of: $0) }
    }

    private static func read(_ packet: [UInt8]) -> [[UInt8]] {
        packet.withUnsafeBytes { RedundantAudio.packets(in: $0, redundancy).map(\.packet) }
    }

    // MARK: Blocks

    @Test func blocksAreRead() {
        #expect(Self.blocks([111, 1, 2]) == [.init(payloadType: 111, age: 0, range: 1..<3)])
        // 960 units, two bytes.
        let two = Self.blocks([Self.copy, 0x0f, 0, 2, 111, 9, 8, 1])
        let expected: [RedundantAudio.Block] = [
            .init(payloadType: 111, age: 960, range: 5..<7), .init(payloadType: 111, age: 0, range: 7..<8),
        ]
        #expect(two == expected)
        // The fields are full.
        let widest: [UInt8] = [Self.copy, 0xff, 0xff, 0xff, 111] + [UInt8](repeating: 3, count: 1024)
        #expect(Self.blocks(widest)?.first == .init(payloadType: 111, age: 0x3fff, range: 5..<1028))
    }

    /// Nothing; no data of the packet's own; a header that is cut off, or is the last one; a length behind the end.
    @Test(
        arguments: [
            [], [111], [0x80 | 111], [0x80 | 111, 0, 0], [0x80 | 111, 0, 0, 0], [0x80 | 111, 0, 0, 2, 111, 1, 2],
            [0x80 | 111, 0, 3, 255, 111, 1], [0x80 | 111, 0, 0, 1, 0x80 | 111, 0, 0, 1],
        ] as [[UInt8]])
    func aMalformedPayloadIsRefused(payload: [UInt8]) { #expect(Self.blocks(payload) == nil) }

    @Test func tooManyBlocksAreRefused() {
        func payload(_ count: Int) -> [UInt8] {
            [[UInt8]](repeating: [Self.copy, 0, 0, 1], count: count).flatMap { $0 } + [111]
                + [UInt8](repeating: 1, count: count + 1)
        }
        #expect(Self.blocks(payload(16))?.count == 17)
        #expect(Self.blocks(payload(17)) == nil)
    }

    /// RED within RED, comfort noise and empty copies are no packets; without one of its own, nothing is taken.
    @Test func onlyTheNegotiatedMediaAreTaken() {
        let header: [UInt8] = [0x80, 63, 0, 7] + UInt32(9600).bytes + UInt32(5).bytes
        let nested: [UInt8] = [0x80 | 63, 0x0f, 0, 1, 0x80 | 13, 0x0f, 0, 1, 0x80 | 111, 0, 0, 0, 111, 9, 8, 7]
        let taken: [UInt8] = [0x80, 111, 0, 7] + UInt32(9600).bytes + UInt32(5).bytes + [7]
        #expect(Self.read(header + nested) == [taken])
        #expect(Self.read(header + [Self.copy, 0x0f, 0, 1, 63, 9, 8]).isEmpty)
        #expect(Self.read(header + [63, 111, 1]).isEmpty)
        #expect(Self.read([0x80, 63, 0, 7]).isEmpty)
    }

    // MARK: What is written

    @Test func eachPacketRepeatsTheOneBeforeIt() throws {
        var writer = RedundancyWriter(payloadType: 63)
        for number in 65_530..<65_550 {
            let marker: UInt8 = number % 3 == 0 ? 0x80 : 0
            let packet = Self.opus(number, Self.payload(number), marker: marker)
            let written = try #require(packet.withUnsafeBytes { writer.write($0) })
            #expect(written[1] == marker | 63 && Array(written[2..<12]) == Array(packet[2..<12]))
            let copy = Self.opus(number - 1, Self.payload(number - 1))
            #expect(Self.read(written) == (number == 65_530 ? [packet] : [copy, packet]))
        }
    }

    /// A pause of more than 14 bits, a gap in the numbers, and a packet without room for a copy: it goes alone.
    @Test func aCopyThatDoesNotFitIsLeftOut() throws {
        func second(_ first: [UInt8], _ second: [UInt8]) throws -> [[UInt8]] {
            var writer = RedundancyWriter(payloadType: 63)
            _ = first.withUnsafeBytes { writer.write($0) }
            return Self.read(try #require(second.withUnsafeBytes { writer.write($0) }))
        }
        let long = Self.opus(2, [UInt8](repeating: 1, count: 700))
        #expect(try second(Self.opus(1, [1], step: 16_383), Self.opus(2, [2], step: 16_383)).count == 2)
        #expect(try second(Self.opus(1, [1], step: 16_384), Self.opus(2, [2], step: 16_384)).count == 1)
        #expect(try second(Self.opus(1, [1]), Self.opus(3, [3])).count == 1)
        #expect(try second(Self.opus(1, [UInt8](repeating: 1, count: 700)), long).count == 1)
        #expect(try second(Self.opus(1, [UInt8](repeating: 1, count: 1024)), Self.opus(2, [2])).count == 1)
        #expect(try second(Self.opus(1, [1]), Self.opus(1, [1])).count == 1)
        var writer = RedundancyWriter(payloadType: 63)
        #expect([UInt8](repeating: 0x80, count: 12).withUnsafeBytes { writer.write($0) } == nil)
    }

    // MARK: What is received

    private struct Receiver {
        var session = InboundRTP(.audio, storage: SimulatedPacket.self)
        var now = Duration.zero
        /// Payloads in the order in which they leave.
        var delivered: [[UInt8]] = []
        var times: [UInt64] = []
        var discontinuities = 0
        var lost = 0
        private var random = SeededGenerator(seed: 1)

        init() {
            var parameters = RTPSessionParameters(clockRate: 48_000, ssrc: 7, cname: "a")
            parameters.caps = [111: ""]
            parameters.redundancy = RedundantAudioTests.redundancy
            session.configure(parameters)
            session.select(5, now: .zero) { _ in }
        }

        private mutating func note(_ actions: [InboundAction]) {
            for action in actions {
                switch action {
                case .packet(let packet, let time, let isDiscontinuous):
                    delivered.append(packet.withBytes { Array($0[12...]) } ?? [])
                    times.append(time)
                    discontinuities += isDiscontinuous ? 1 : 0
                case .lost: lost += 1
                case .source, .rtcp: break
                }
            }
        }

        mutating func arrive(_ packet: [UInt8], at milliseconds: Int) {
            advance(to: milliseconds)
            var actions: [InboundAction] = []
            packet.withUnsafeBytes { bytes in
                session.received(
                    rtp: bytes, activeType: 111, now: now, running: { Int64(milliseconds) * 1_000_000 }
                ) { actions.append($0) }
            }
            _ = session.flush()
            note(actions)
        }

        mutating func advance(to milliseconds: Int) {
            let end = Duration.milliseconds(milliseconds)
            while let wake = session.nextWake, wake <= end {
                now = max(now, wake)
                var actions: [InboundAction] = []
                session.wake(at: now, senders: { [] }, using: &random) { actions.append($0) }
                note(actions)
            }
            now = end
        }
    }

    /// Sends packets 1 to 100, of which some are lost.
    private func receive(losing lost: (Int) -> Bool, redundant: Bool = true) throws -> Receiver {
        var (writer, receiver) = (RedundancyWriter(payloadType: 63), Receiver())
        for number in 1...100 {
            let packet = Self.opus(number, Self.payload(number))
            let written = try #require(packet.withUnsafeBytes { writer.write($0) })
            if !lost(number) { receiver.arrive(redundant ? written : packet, at: number * 20) }
        }
        receiver.advance(to: 3000)
        return receiver
    }

    @Test func singleLossesAreReplaced() throws {
        let receiver = try receive { $0 % 5 == 2 }
        #expect(receiver.delivered == (1...100).map(Self.payload))
        #expect(receiver.lost == 0 && receiver.discontinuities == 0)
        #expect(receiver.session.statistics.packetsRecovered == 20)
        // The network's loss stays visible: receiver reports count what did not arrive.
        #expect(receiver.session.statistics.packetsLost == 20)
        let steps = zip(receiver.times, receiver.times.dropFirst()).map { $1 - $0 }
        #expect(steps.allSatisfy { $0 == 20_000_000 }, "each has the time of its own media")
        // The twin: without redundancy each loss is a gap.
        let bare = try receive(losing: { $0 % 5 == 2 }, redundant: false)
        #expect(bare.lost == 20 && bare.delivered.count == 80 && bare.session.statistics.packetsRecovered == 0)
    }

    /// One copy replaces the last one of several.
    @Test func aBurstLosesAllButItsLast() throws {
        let receiver = try receive { (40..<44).contains($0) }
        #expect(receiver.delivered == (1...100).filter { !(40..<43).contains($0) }.map(Self.payload))
        #expect(receiver.lost == 1 && receiver.discontinuities == 1)
        #expect(receiver.session.statistics.packetsRecovered == 1)
    }

    @Test func copiesOfWhatHasArrivedAreDropped() throws {
        let receiver = try receive { _ in false }
        #expect(receiver.delivered == (1...100).map(Self.payload))
        #expect(receiver.session.statistics.packetsRecovered == 0 && receiver.lost == 0)
    }

    /// A packet that comes behind its copy is late, and heard once.
    @Test func disorderIsHeardOnce() throws {
        var (writer, receiver) = (RedundancyWriter(payloadType: 63), Receiver())
        let packets = try (1...6).map { number in
            try #require(Self.opus(number, Self.payload(number)).withUnsafeBytes { writer.write($0) })
        }
        for (place, index) in [0, 2, 1, 3, 5, 4].enumerated() { receiver.arrive(packets[index], at: 20 * place + 20) }
        receiver.advance(to: 500)
        #expect(receiver.delivered == (1...6).map(Self.payload) && receiver.lost == 0)
    }

    /// The first packet's copy is of a time before the stream.
    @Test func theStreamBeginsWithItsFirstPacket() throws {
        let receiver = try receive { $0 < 3 }
        #expect(receiver.delivered.first == Self.payload(3) && receiver.session.statistics.packetsRecovered == 0)
    }

    /// A LiveKit server ends a track with silence of its own.
    @Test func silenceOfTheServerIsDropped() throws {
        var (writer, receiver) = (RedundancyWriter(payloadType: 63), Receiver())
        let trailer = Array("trailer of a room".utf8)
        receiver.session.setFiller(FillerTrailer(trailer))
        for number in 1...3 {
            let packet = Self.opus(number, number == 2 ? [0xf8, 0xff, 0xfe] + trailer : Self.payload(number))
            receiver.arrive(try #require(packet.withUnsafeBytes { writer.write($0) }), at: number * 20)
        }
        #expect(receiver.delivered == [1, 3].map(Self.payload) && receiver.lost == 0)
        #expect(receiver.session.statistics.fillerFrames == 1)
    }

    @Test func garbageIsDropped() {
        var receiver = Receiver()
        let tooLong: [UInt8] = [0x80 | 111, 0, 3, 255, 111, 1]
        receiver.arrive([0x80, 63, 0, 1] + UInt32(960).bytes + UInt32(5).bytes + tooLong, at: 20)
        receiver.arrive([0x80, 63, 0, 2] + UInt32(1920).bytes + UInt32(5).bytes, at: 40)
        #expect(receiver.delivered.isEmpty)
        receiver.arrive(Self.opus(3, [1]), at: 60)
        #expect(receiver.delivered == [[1]])
    }
}

extension UInt32 {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}
