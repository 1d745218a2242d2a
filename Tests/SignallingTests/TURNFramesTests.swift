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
