import Signalling
import Testing

@Suite("Frames of a TURN server over TCP") struct TURNFramesTests {
    private static let message: [UInt8] =
        [0x01, 0x03, 0, 8, 0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: 0xAA, count: 12) + [0, 1, 0, 4, 1, 2, 3, 4]
    /// Five bytes, padded.
    private static let channel: [UInt8] = [0x40, 0x01, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0]
    private static let empty: [UInt8] = [0x4F, 0xFF, 0, 0]

    /// In one piece, in single bytes, and in pieces between.
    @Test(arguments: [1, 3, 7, 1000]) func framesAreCounted(size: Int) {
        var frames = TURNFrames()
        let all = Self.message + Self.channel + Self.empty + Self.empty + Self.message
        var count = 0
        for start in stride(from: 0, to: all.count, by: size) {
            let number = frames.follow(all[start..<min(start + size, all.count)])
            #expect(number != nil)
            count += number ?? 0
        }
        #expect(count == 5)
    }

    /// libnice would follow a redirect in clear, to any address and without end.
    @Test(arguments: [(UInt8(1), UInt8(0x13), true), (1, 0x11, true), (1, 0x03, false)])
    func redirectsAreFound(first: UInt8, second: UInt8, isError: Bool) {
        let error: [UInt8] = [0, 9, 0, 6, 0, 0, 3, 0, 0x4E, 0x6F, 0, 0]
        let server: [UInt8] = [0x80, 0x23, 0, 8, 0, 1, 0x0D, 0x96, 127, 0, 0, 1]
        let head: [UInt8] = [first, second, 0, 24, 0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: 0x80, count: 12)
        for size in [1, 5, 1000] {
            // The type of an attribute in the value of another one, or in other frames, is none.
            let named: [UInt8] = head.prefix(2) + [0, 12] + head.dropFirst(4) + [0x80, 0x22, 0, 8]
            let others: [UInt8] = Self.message + Self.channel + named
            let value: [UInt8] = [0x80, 0x23, 0, 8, 0x80, 0x23, 0, 8]
            let without: [UInt8] = others + value + Self.channel
            let with: [UInt8] = others + [0, 1, 2, 3, 4, 5, 6, 7] + head + error + server
            for (all, redirects) in [(without, false), (with, isError)] {
                var frames = TURNFrames()
                for start in stride(from: 0, to: all.count, by: size) {
                    #expect(frames.follow(all[start..<min(start + size, all.count)]) != nil)
                }
                #expect(frames.redirects == redirects)
            }
        }
    }

    /// Zeros, another type, no cookie, a length that STUN has not, and TLS.
    @Test(
        arguments: [
            [0, 0, 0, 0, 0, 0, 0, 0], [0x80], [0x01, 0x01, 0, 8, 0x21, 0x12, 0xA4, 0x43],
            [0x01, 0x01, 0, 6, 0x21, 0x12, 0xA4, 0x42], [0x16, 3, 3, 0, 122, 2, 0, 0],
        ] as [[UInt8]])
    func otherBytesAreNone(bytes: [UInt8]) {
        var frames = TURNFrames()
        #expect(frames.follow(bytes[...]) == nil)
        var later = TURNFrames()
        #expect(later.follow((Self.message + Self.channel)[...]) == 2)
        #expect(later.follow(bytes[...]) == nil)
        // There is no way back.
        for _ in 0..<3 { #expect(later.follow(Self.message[...]) == nil) }
        #expect(later.follow([]) == nil)
    }
}
