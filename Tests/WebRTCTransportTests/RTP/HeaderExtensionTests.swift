import RTP
import Testing
import TestSupport
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct HeaderExtensionTests {
    private static var ids: HeaderExtensionIDs {
        var ids = HeaderExtensionIDs()
        (ids.mid, ids.absoluteSendTime, ids.transportWideCC) = (1, 2, 3)
        return ids
    }

    private func write(
        _ packet: [UInt8], ids: HeaderExtensionIDs = Self.ids, mid: String = "0", time: Duration = .zero,
        reserve: Int = 20
    ) -> [UInt8]? {
        let writer = HeaderExtensionWriter(ids: ids, mid: mid)
        return packet.withUnsafeBytes {
            writer.write($0, sendTime: time, reserve: reserve).map { Array($0.buffer[..<$0.length]) }
        }
    }

    private static let plain: [UInt8] = [0x80, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xaa, 0xbb, 0xcc]

    @Test func addsAllToAPlainPacket() {
        // 1.5 s in 6.18 fixed point is 0x060000.
        #expect(
            write(Self.plain, time: .milliseconds(1500))
                == [
                    0x90, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xbe, 0xde, 0, 3, 0x10, 0x30, 0x22, 6, 0, 0, 0x31, 0,
                    0, 0, 0, 0, 0xaa, 0xbb, 0xcc,
                ])
    }

    @Test func sendTimeWrapsEverySixtyFourSeconds() {
        let early = write(Self.plain, time: .seconds(1))
        #expect(early == write(Self.plain, time: .seconds(65)))
        #expect(early != write(Self.plain, time: .seconds(2)))
        #expect(write(Self.plain, time: .seconds(Int64.max)) != nil)
    }

    @Test func keepsWhatIsThere() {
        // The packet has an extension of the payloader, then padding.
        let packet: [UInt8] = [0x90, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xbe, 0xde, 0, 1, 0x51, 7, 8, 0, 0xaa]
        #expect(
            write(packet)
                == [
                    0x90, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xbe, 0xde, 0, 3, 0x51, 7, 8, 0x10, 0x30, 0x22, 0, 0, 0,
                    0x31, 0, 0, 0xaa,
                ])
    }

    @Test func transportSequenceNumbersAreInTheOrderOfSending() {
        let writer = HeaderExtensionWriter(ids: Self.ids, mid: "0")
        for expected in [0, 1, 2] as [UInt8] {
            let value = Self.plain.withUnsafeBytes {
                writer.write($0, sendTime: .zero, reserve: 20).map { [$0.buffer[22], $0.buffer[23], $0.buffer[24]] }
            }
            #expect(value == [0x31, 0, expected] && writer.transportSequence == UInt16(expected))
        }
    }

    @Test func contributingSourcesStayInPlace() {
        let packet: [UInt8] = [0x82, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 1, 1, 1, 2, 2, 2, 2, 0xaa]
        let written = write(packet)
        #expect(written?.prefix(22) == [0x92, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 1, 1, 1, 2, 2, 2, 2, 0xbe, 0xde])
        #expect(written?.last == 0xaa)
    }

    @Test func nothingNegotiatedNothingAdded() {
        #expect(write(Self.plain, ids: HeaderExtensionIDs()) == Self.plain)
        let twoBytes: [UInt8] = [0x90, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0x10, 0, 0, 0, 0xaa]
        #expect(write(twoBytes) == twoBytes)
    }

    @Test func aMidThatDoesNotFitIsLeftOut() {
        let sixteen = write(Self.plain, mid: String(repeating: "m", count: 16))
        #expect(sixteen?[16] == 0x1f)
        let seventeen = write(Self.plain, mid: String(repeating: "m", count: 17))
        #expect(seventeen?[16] == 0x22, "a part of a mid is another mid")
    }

    @Test func refusesWhatIsNoPacket() {
        let rest = Array(Self.plain.dropFirst())
        let packets: [[UInt8]] = [
            [], [0x80], Array(Self.plain.prefix(11)), [0x40] + rest, [0x8f] + rest, [0x90] + rest,
            [0x90] + rest.prefix(11) + [0xbe, 0xde, 0xff, 0xff, 0],
        ]
        for packet in packets {
            #expect(write(packet) == nil, "\(packet)")
        }
    }

    @Test func leavesTheRoomThatIsAskedFor() {
        let most = HeaderExtensionWriter.capacity - 20 - 16
        let longest = Self.plain.prefix(12) + [UInt8](repeating: 1, count: most - 12)
        #expect(write(Array(longest))?.count == HeaderExtensionWriter.capacity - 20)
        #expect(write(Array(longest) + [1]) == nil)
        #expect(write(Array(longest) + [1], reserve: 0) != nil)
    }

    @Test func everyLengthAndAnyBytes() {
        var generator = SeededGenerator(seed: 5)
        let writer = HeaderExtensionWriter(ids: Self.ids, mid: "video0")
        for length in 0...2100 {
            for first: UInt8 in [0x80, 0x90, 0x9f, 0xbf] {
                var packet = generator.bytes(length)
                if length > 0 { packet[0] = first }
                if length > 14, length % 2 == 0 { packet.replaceSubrange(12..<14, with: [0xbe, 0xde]) }
                if length > 16, length % 4 == 0 { packet.replaceSubrange(14..<16, with: [0, UInt8(length % 64)]) }
                let written = packet.withUnsafeBytes {
                    writer.write($0, sendTime: .nanoseconds(Int64(bitPattern: generator.next())), reserve: 20)?.length
                }
                #expect((written ?? 0) <= HeaderExtensionWriter.capacity - 20)
            }
        }
    }

    // MARK: Reading

    private func packet(_ profile: [UInt8], words: UInt16? = nil, _ elements: [UInt8]) -> [UInt8] {
        let padded = elements + [UInt8](repeating: 0, count: (4 - elements.count % 4) % 4)
        let count = words ?? UInt16(padded.count / 4)
        return [0x90, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3] + profile + [UInt8(count >> 8), UInt8(count & 255)] + padded
            + [0xaa, 0xbb]
    }

    private func number(_ packet: [UInt8], id: UInt8 = 3) -> UInt16? {
        packet.withUnsafeBytes { TransportSequence.number(in: $0, id: id) }
    }

    /// A sender that may mix the forms takes two-byte headers for a packet with a long element, and for IDs above 14.
    @Test(
        arguments: [
            ([0xbe, 0xde], [0x22, 1, 2, 3, 0x31, 0x12, 0x34], 3), ([0x10, 0], [2, 3, 1, 2, 3, 3, 2, 0x12, 0x34], 3),
            // Padding between elements, an empty element, and bits of the application.
            ([0x10, 0x0f], [0, 0, 2, 0, 0, 3, 2, 0x12, 0x34], 3),
            ([0x10, 0], [15, 1, 0, 16, 1, 9, 3, 2, 0x12, 0x34], 3),
            ([0x10, 0], [1, 40] + [UInt8](repeating: 0x55, count: 40) + [3, 2, 0x12, 0x34], 3),
            ([0x10, 0], [15, 2, 0x12, 0x34], 15), ([0x10, 0], [200, 2, 0x12, 0x34], 200),
        ] as [([UInt8], [UInt8], UInt8)])
    func bothFormsAreRead(profile: [UInt8], elements: [UInt8], id: UInt8) {
        #expect(number(packet(profile, elements), id: id) == 0x1234)
    }

    @Test(
        arguments: [
            // A value that ends behind the extension, a header without its length, an extension that ends behind the packet.
            ([0x10, 0], nil, [3, 3, 0x12, 0x34]), ([0x10, 0], nil, [2, 0, 0, 3]), ([0x10, 0], 9, [3, 2, 0x12, 0x34]),
            ([0x10, 0], nil, [2, 200, 3, 2, 0x12, 0x34, 0, 0]), ([0x10, 0], nil, []), ([0x10, 0], nil, [0, 0, 0, 0]),
            // Other profiles, one-byte elements in a two-byte extension, and the end of a list with one-byte headers.
            ([0x11, 0], nil, [3, 2, 0x12, 0x34]), ([0x0f, 0xff], nil, [3, 2, 0x12, 0x34]),
            ([0x10, 0], nil, [0x31, 0x12, 0x34]), ([0xbe, 0xde], nil, [0xf0, 0, 0x31, 0x12, 0x34]),
            ([0xbe, 0xdf], nil, [0x31, 0x12, 0x34]), ([0x10, 0], nil, [3, 1, 0x12, 0]),
            ([0x10, 0], nil, [3, 0, 0, 0]),
        ] as [([UInt8], UInt16?, [UInt8])])
    func malformedExtensionsHaveNoValue(profile: [UInt8], words: UInt16?, elements: [UInt8]) {
        #expect(number(packet(profile, words: words, elements)) == nil)
    }

    @Test func anyBytesAreReadWithinThePacket() {
        var generator = SeededGenerator(seed: 9)
        for length in 0...160 {
            for profile: [UInt8] in [[0xbe, 0xde], [0x10, 0], [0x10, 0x07]] {
                var packet = generator.bytes(length)
                if length > 0 { packet[0] = 0x90 }
                if length > 15 { packet.replaceSubrange(12..<16, with: profile + [0, UInt8(length % 48)]) }
                for id: UInt8 in [0, 1, 3, 14, 15, 255] { _ = number(packet, id: id) }
            }
        }
        #expect(number(packet([0x10, 0], [3, 2, 0x12, 0x34])) == 0x1234)
    }
}
