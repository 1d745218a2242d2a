import RTP
import Testing
import TestSupport
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct FeedbackTests {
    private func estimate(_ bytes: [UInt8]) -> Int? {
        bytes.withUnsafeBytes { RTCPCompound(parsing: $0) }.remoteBitrateEstimate
    }

    @Test(arguments: [0, 1, 1000, 0x3ffff, 0x40000, 500_000, 2_500_000, 123_456_789, 1 << 40, Int.max, -5])
    func roundTrip(bitrate: Int) throws {
        let packet = RTCPPackets.makeREMB(bitrate: bitrate, senderSSRC: 0x0102_0304, mediaSSRC: 0xfffe_fdfc)
        #expect(packet.count == 8 + 24)
        #expect(packet.count % 4 == 0)
        let read = try #require(estimate(packet))
        // The mantissa has 18 bits; the rest is truncated.
        #expect(read <= max(0, bitrate))
        #expect(Double(read) >= Double(max(0, bitrate)) * (1 - 1.0 / 131_072))
        #expect(Array(packet[28...]) == [0xff, 0xfe, 0xfd, 0xfc])
    }

    @Test func knownBytes() {
        // RR, then a REMB of 0x26b4a << 4 bit/s.
        let bytes: [UInt8] = [
            0x80, 201, 0, 1, 1, 2, 3, 4, 0x8f, 206, 0, 5, 1, 2, 3, 4, 0, 0, 0, 0, 0x52, 0x45, 0x4d, 0x42, 1, 0x12, 0x6b,
            0x4a, 9, 9, 9, 9,
        ]
        #expect(estimate(bytes) == 2_536_608)
    }

    @Test func theLastOneCounts() {
        let two =
            RTCPPackets.makeREMB(bitrate: 100_000, senderSSRC: 1, mediaSSRC: 2)
            + RTCPPackets.makeREMB(bitrate: 200_000, senderSSRC: 1, mediaSSRC: 2)
        #expect(estimate(two) == 200_000)
    }

    @Test func anExponentBeyondReasonSaturates() {
        var packet = RTCPPackets.makeREMB(bitrate: 1000, senderSSRC: 1, mediaSSRC: 2)
        packet[25] = 0xff
        #expect(estimate(packet) == Int.max)
    }

    @Test func whatIsNoEstimate() {
        let good = RTCPPackets.makeREMB(bitrate: 100_000, senderSSRC: 1, mediaSSRC: 2)
        #expect(estimate([]) == nil)
        #expect(estimate(Array(good.dropLast())) == nil)
        #expect(estimate([0x8f, 206, 0, 1] + [UInt8](repeating: 0, count: 4)) == nil)
        var other = good
        other[20] = 0x51
        #expect(estimate(other) == nil)
        for length in 0...good.count { _ = estimate(Array(good.prefix(length))) }
    }

    /// A REMB whose header claims 16 bytes ends before its bit rate; the bytes after it belong to the next packet.
    @Test func anEstimateThatIsCutOffByItsOwnLength() {
        let short: [UInt8] = [0x8f, 206, 0, 3, 1, 2, 3, 4, 0, 0, 0, 0, 0x52, 0x45, 0x4d, 0x42]
        #expect(estimate(short) == nil)
        #expect(estimate(short + [0x80, 201, 0, 1, 1, 2, 3, 4]) == nil)
        let whole = RTCPPackets.makeREMB(bitrate: 100_000, senderSSRC: 1, mediaSSRC: 2)
        #expect(estimate(short + whole) == 100_000)
    }

    /// A reference parser: the same algorithm on an array, whose bounds are checked.
    private func reference(_ bytes: [UInt8]) -> Int? {
        var (rest, found) = (bytes[...], Int?.none)
        while rest.count >= 4 {
            let packet = Array(rest)
            let length = 4 * (Int(packet[2]) * 256 + Int(packet[3]) + 1)
            guard packet[0] / 64 == 2, length <= packet.count else { return found }
            if packet[1] == 206, packet[0] % 32 == 15, length >= 20, Array(packet[12..<16]) == Array("REMB".utf8) {
                let mantissa = Int(packet[17] % 4) * 65_536 + Int(packet[18]) * 256 + Int(packet[19])
                let exponent = Int(packet[17] / 4)
                found = exponent > 40 ? .max : (0..<exponent).reduce(mantissa) { value, _ in value * 2 }
            }
            rest = rest.dropFirst(length)
        }
        return found
    }

    /// Random compounds of valid REMB packets, truncated, damaged or with wrong lengths, match the reference's result.
    @Test func anyBytesOfAnyLength() {
        var generator = SeededGenerator(seed: 11)
        var estimates = 0
        for round in 0..<20_000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let bitrate = Int.random(in: 0...1 << 40, using: &generator)
                bytes += RTCPPackets.makeREMB(bitrate: bitrate, senderSSRC: 1, mediaSSRC: 2)
            }
            if round % 2 == 0 { bytes.removeLast(Int.random(in: 0...bytes.count, using: &generator)) }
            for _ in 0..<(round % 4) where !bytes.isEmpty {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8(truncatingIfNeeded: generator.next())
            }
            // Byte 11 is in the length field of the REMB after the first report.
            if round % 8 < 3, bytes.count > 12 { bytes[11] = UInt8.random(in: 0...8, using: &generator) }
            let read = estimate(bytes)
            #expect(read == reference(bytes), "\(bytes)")
            if read != nil { estimates += 1 }
        }
        // Both outcomes must occur often.
        #expect((2000...18_000).contains(estimates), "\(estimates)")
    }
}
