import RTP
import TestSupport
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct TransportFeedbackTests {
    typealias Status = TransportFeedback.Packet.Status

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        /// nil: the parser rejects the message.
        let expected: [Status]?
        init(_ name: String, _ bytes: [UInt8], _ expected: [Status]?) {
            (testDescription, self.bytes, self.expected) = (name, bytes, expected)
        }
        /// A message from sequence number 1 on.
        init(
            _ name: String, count: UInt16, chunks: [UInt16], deltas: [UInt8] = [], padding: Int = 0, words: Int? = nil,
            type: UInt8 = 205, format: UInt8 = 15, _ expected: [Status]?
        ) {
            let bytes = FeedbackBytes.message(
                base: 1, count: count, chunks: chunks, deltas: deltas, padding: padding, words: words, type: type,
                format: format)
            self.init(name, bytes, expected)
        }
    }

    static func received(_ ticks: Int64) -> Status { .received(after: ticks * 250) }
    static let one = FeedbackBytes.message(base: 7, count: 1, chunks: [0x2001], deltas: [4])

    static let cases: [Case] = [
        Case(
            "run of small deltas", count: 3, chunks: [0x2003], deltas: [1, 2, 3],
            [received(1), received(3), received(6)]),
        Case("run of lost", count: 3, chunks: [0x0003], [.lost, .lost, .lost]),
        Case(
            "run of large deltas", count: 2, chunks: [0x4002], deltas: [0x01, 0x00, 0xff, 0xff],
            [received(256), received(255)]),
        Case("first delta negative", count: 1, chunks: [0x4001], deltas: [0x80, 0x00], [received(-32768)]),
        Case("largest small delta", count: 1, chunks: [0x2001], deltas: [255], [received(255)]),
        Case("received without time", count: 2, chunks: [0x6002], [.receivedWithoutTime, .receivedWithoutTime]),
        Case("run longer than the count", count: 2, chunks: [0x3fff], deltas: [1, 1], [received(1), received(2)]),
        Case(
            "one-bit vector", count: 14, chunks: [0x8000 | 0b10_0000_0000_0001], deltas: [1, 1],
            [received(1)] + [Status](repeating: .lost, count: 12) + [received(2)]),
        Case(
            "one-bit vector, cut by the count", count: 2, chunks: [0xbfff], deltas: [1, 1], [received(1), received(2)]),
        Case(
            "two-bit vector", count: 7, chunks: [0xc000 | 0b01_10_00_11_01_00_01], deltas: [1, 0, 2, 3, 4],
            [received(1), received(3), .lost, .receivedWithoutTime, received(6), .lost, received(10)]),
        Case("two-bit vector, cut by the count", count: 1, chunks: [0xffff], [.receivedWithoutTime]),
        Case(
            "run, then vector", count: 4, chunks: [0x2002, 0xc000 | 0b01_00 << 10], deltas: [1, 1, 1],
            [received(1), received(2), received(3), .lost]),
        Case("empty run is skipped", count: 1, chunks: [0x2000, 0x2001], deltas: [9], [received(9)]),
        Case(
            "whole words of padding", count: 2, chunks: [0x2002], deltas: [1, 1], padding: 4,
            [received(1), received(2)]),
        Case(
            "zeros after the deltas without the padding bit", count: 2, chunks: [0x2002], deltas: [1, 1, 0, 0, 0, 0],
            [received(1), received(2)]),
        Case("as many as are allowed", count: 4096, chunks: [0x1000], [Status](repeating: .lost, count: 4096)),
        Case("more than are allowed", count: 4097, chunks: [0x1001], nil),
        Case("65,535 claimed by nine chunks", count: 65535, chunks: [UInt16](repeating: 0x1fff, count: 9), nil),
        Case("no statuses", count: 0, chunks: [0x2001], deltas: [1], nil),
        Case("chunks missing", count: 100, chunks: [0x0001, 0x0001], nil),
        Case("empty runs until the end", count: 1, chunks: [0, 0, 0, 0], nil),
        Case("small deltas missing", count: 30, chunks: [0x201e], deltas: [1, 1], nil),
        Case("large delta cut in half", count: 1, chunks: [0x4001], deltas: [1, 1, 1], padding: 3, [received(257)]),
        Case("padding eats the deltas", count: 2, chunks: [0x2002], padding: 2, nil),
        Case("padding longer than the packet", Array(one.dropLast() + [200]), nil),
        Case("no padding in spite of the bit", Array(one.dropLast() + [0]), nil),
        Case("length beyond the datagram", count: 1, chunks: [0x2001], deltas: [1], words: 60, nil),
        Case("length below the fixed part", count: 1, chunks: [0x2001], deltas: [1], words: 2, nil),
        Case("generic NACK", count: 1, chunks: [0x2001], deltas: [1], format: 1, nil),
        Case("payload-specific", count: 1, chunks: [0x2001], deltas: [1], type: 206, nil),
        Case("version 1", [one[0] & 0x3f | 0x40] + one.dropFirst(), nil),
        Case("empty", [], nil),
        Case("three bytes", [0x8f, 205, 0], nil),
        Case("header only", [0x8f, 205, 0, 0], nil),
    ]

    @Test(arguments: cases)
    func table(_ test: Case) {
        let found = FeedbackBytes.parse(test.bytes)
        guard let expected = test.expected else {
            #expect(found.isEmpty)
            return
        }
        #expect(found.count == 1)
        #expect(found.first?.packets.map(\.status) == expected)
        #expect(found.first?.packets.enumerated().allSatisfy { $0.element.sequence == UInt16(1 + $0.offset) } == true)
    }

    @Test
    func headerFieldsAndNumbersThatWrap() throws {
        let bytes = FeedbackBytes.message(
            base: 65534, count: 4, reference: 0xfe_dcba, feedbackCount: 200, chunks: [0x2004], deltas: [0, 0, 0, 0])
        let feedback = try #require(FeedbackBytes.parse(bytes).first)
        #expect(feedback.baseSequence == 65534)
        #expect(feedback.referenceTime == 0xfe_dcba)
        #expect(feedback.feedbackCount == 200)
        #expect(feedback.packets.map(\.sequence) == [65534, 65535, 0, 1])
    }

    @Test
    func everyMessageOfACompoundUpToTheFirstDamage() {
        let report: [UInt8] = [0x80, 201, 0, 1, 0, 0, 0, 9]
        #expect(FeedbackBytes.parse(report + Self.one + report + Self.one).count == 2)
        #expect(FeedbackBytes.parse(Self.one + [0x00, 205, 0, 1] + Self.one).count == 1)
        // A rejected message does not prevent the others in the compound from being parsed.
        #expect(FeedbackBytes.parse(FeedbackBytes.message(base: 1, count: 9, chunks: [0x2009]) + Self.one).count == 1)
    }

    @Test
    func statusesOfAWholeDatagramAreBounded() {
        let large = FeedbackBytes.message(base: 1, count: 2000, chunks: [0x07d0])
        let found = FeedbackBytes.parse((0..<60).flatMap { _ in large })
        #expect(found.reduce(0) { $0 + $1.packets.count } <= TransportFeedback.maximumPackets)
        #expect(found.count == 2)
    }

    /// Tests every length of every prefix, and seeded damage: no trap, bounded output.
    @Test
    func damageNeverTraps() {
        let seeds =
            Self.cases.map(\.bytes) + [
                FeedbackBytes.message(
                    base: 100, arrivals: (0..<300).map { $0 % 7 == 0 ? nil : Int64($0) * 3000 }, feedbackCount: 1)
            ]
        for bytes in seeds { for length in 0...bytes.count { _ = FeedbackBytes.parse(Array(bytes.prefix(length))) } }
        var random = SeededGenerator(seed: 42)
        var parsed = 0
        for _ in 0..<60_000 {
            var bytes = seeds[Int.random(in: 0..<seeds.count, using: &random)]
            for _ in 0..<Int.random(in: 1...6, using: &random) where !bytes.isEmpty {
                let at = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes[at] ^= 1 << UInt8.random(in: 0...7, using: &random)
                case 2: bytes.removeSubrange(at...)
                case 3: bytes.insert(contentsOf: [UInt8](repeating: 0xff, count: 4), at: at)
                default: bytes += bytes[at...]
                }
            }
            let found = FeedbackBytes.parse(Array(bytes.prefix(1500)))
            parsed += found.count
            guard found.reduce(0, { $0 + $1.packets.count }) <= TransportFeedback.maximumPackets else {
                Issue.record("unbounded: \(bytes)")
                return
            }
            _ = bytes.withUnsafeBytes { RTCPCompound(parsing: $0) }
            _ = bytes.withUnsafeBytes { TransportSequence.number(in: $0, id: 3) }
        }
        // Otherwise the damage was too heavy to reach the code behind the header.
        #expect(parsed > 5_000)
    }

    @Test
    func referenceTimesGoOnAcrossTheWrap() {
        var clock = ArrivalClock()
        let first = clock.microseconds(reference: 0xff_fffe)
        #expect(clock.microseconds(reference: 0xff_ffff) == first + 64_000)
        #expect(clock.microseconds(reference: 1) == first + 3 * 64_000)
        // Reordered feedback moves the clock back across the wrap, and the next moves it forward again.
        #expect(clock.microseconds(reference: 0xff_ffff) == first + 64_000)
        #expect(clock.microseconds(reference: 2) == first + 4 * 64_000)
    }

    @Test
    func receptionReportsOfSenderAndReceiverReports() {
        var block = FeedbackBytes.big(UInt32(77)) + [64, 0, 0, 5]
        block += FeedbackBytes.big(UInt32(70_000)) + [0, 0, 0, 1]
        block += FeedbackBytes.big(UInt32(0x1234_5678)) + FeedbackBytes.big(UInt32(65_536 / 2))
        let receiver: [UInt8] = [0x81, 201, 0, 7, 0, 0, 0, 9] + block
        let sender: [UInt8] = [0x82, 200, 0, 18, 0, 0, 0, 9] + [UInt8](repeating: 1, count: 20) + block + block
        let found = (receiver + sender).withUnsafeBytes { RTCPCompound(parsing: $0) }.receptionReports
        #expect(found.count == 3)
        #expect(found.allSatisfy { $0 == found[0] })
        #expect(
            found.first
                == ReceptionReport(
                    ssrc: 77, fractionLost: 64, packetsLost: 5, highestSequence: 70_000, jitter: 1,
                    lastSenderReport: 0x1234_5678,
                    delaySinceLastSenderReport: 32_768))
        // The header announces more report blocks than follow.
        let short: [UInt8] = [0x9f, 201, 0, 7, 0, 0, 0, 9] + block
        #expect(short.withUnsafeBytes { RTCPCompound(parsing: $0) }.receptionReports.count == 1)
    }

    @Test
    func roundTripFromOurOwnSenderReport() {
        var times = SenderReportTimes()
        let ntp: [UInt8] = [1, 2, 0x12, 0x34, 0x56, 0x78, 3, 4]
        let report: [UInt8] = [0x80, 200, 0, 6, 0, 0, 0, 9] + ntp + [UInt8](repeating: 0, count: 12)
        report.withUnsafeBytes { times.note(compound: $0, now: 1_000_000) }
        var answer = ReceptionReport(
            ssrc: 1, fractionLost: 0, highestSequence: 0, lastSenderReport: 0x1234_5678,
            delaySinceLastSenderReport: 32_768)
        #expect(times.roundTrip(of: answer, now: 1_600_000) == 100_000)
        // The delay since the last sender report exceeds the elapsed time: implausible, so no round-trip time.
        #expect(times.roundTrip(of: answer, now: 1_100_000) == nil)
        answer.lastSenderReport = 5
        #expect(times.roundTrip(of: answer, now: 1_600_000) == nil)
    }

    @Test
    func transportSequenceAmongOtherExtensions() {
        func packet(_ elements: [UInt8], profile: [UInt8] = [0xbe, 0xde], words: UInt8? = nil) -> [UInt8] {
            var bytes: [UInt8] = [0x90, 96]
            bytes += [UInt8](repeating: 0, count: 10)
            bytes += profile
            bytes += [0, words ?? UInt8(elements.count / 4)]
            bytes += elements
            return bytes + [1, 2, 3]
        }
        func number(_ bytes: [UInt8]) -> UInt16? { bytes.withUnsafeBytes { TransportSequence.number(in: $0, id: 3) } }
        #expect(number(packet([0x31, 0xab, 0xcd, 0])) == 0xabcd)
        #expect(number(packet([0x10, 0x61, 0, 0x31, 0xab, 0xcd, 0, 0])) == 0xabcd)
        #expect(number(packet([0x22, 1, 2, 3])) == nil)
        #expect(number(packet([0x30, 1, 0, 0])) == nil)
        #expect(number(packet([0xf0, 0, 0x31, 1])) == nil)
        #expect(number(packet([0x00, 0x00, 0x31, 1])) == nil)
        #expect(number(packet([0x31, 1, 2, 0], profile: [0x10, 0x00])) == nil)
        #expect(number(packet([0x31, 1, 2, 0], words: 200)) == nil)
        #expect(number([0x80, 96] + [UInt8](repeating: 0, count: 20)) == nil)
        #expect(number([0x9f, 96] + [UInt8](repeating: 0, count: 10)) == nil)
    }
}
