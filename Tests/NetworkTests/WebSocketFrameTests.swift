import TestSupport
import Testing

import Network

@Suite struct WebSocketFrameTests {
    @Test func bitsAndLengths() {
        #expect(WebSocketFrame.bytes(.text, "Hi".utf8, as: .server) == [0x81, 2, 0x48, 0x69])
        #expect(WebSocketFrame.bytes(.binary, [], isFinal: false, as: .server) == [2, 0])
        let frame = WebSocketFrame(
            isFinal: false, reserved: 5, opcode: 11, maskKey: 0x0102_0304, payload: [0, 0, 0, 0, 0])
        #expect(frame.bytes == [0x5B, 0x85, 1, 2, 3, 4, 1, 2, 3, 4, 1])
        for (count, header) in [
            (125, [125]), (126, [126, 0, 126]), (65_535, [126, 255, 255]), (65_536, [127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] as [(Int, [UInt8])] {
            let payload = [UInt8](repeating: 7, count: count)
            #expect(WebSocketFrame.bytes(.binary, payload, as: .server) == [0x82] + header + payload)
        }
    }

    @Test func aClientMasksEachFrameWithAKeyOfItsOwn() {
        let frames = (0..<8).map { _ in WebSocketFrame.bytes(.binary, [UInt8](repeating: 0, count: 64), as: .client) }
        #expect(frames.allSatisfy { $0[0] == 0x82 && $0[1] == 0x80 | 64 })
        // The payload is zero, so that the key is what stands there.
        #expect(frames.allSatisfy { frame in frame.indices.dropFirst(6).allSatisfy { frame[$0] == frame[$0 - 4] } })
        #expect(Set(frames).count == 8)
    }

    @Test func close() {
        #expect(WebSocketFrame.close(code: nil, reason: "why", as: .server) == [0x88, 0])
        #expect(WebSocketFrame.close(code: 1001, as: .server) == [0x88, 2, 0x03, 0xE9])
        #expect(WebSocketFrame.close(code: 4999, reason: "ä", as: .server) == [0x88, 4, 0x13, 0x87, 0xC3, 0xA4])
        let reason = String(repeating: "a", count: 122)
        for (tail, kept) in [("b", "b"), ("ä", ""), ("bc", "b"), ("bä", "b"), ("👩‍👩‍👧", ""), ("ä and more", "")] {
            let frame = WebSocketFrame.close(code: 1000, reason: reason + tail, as: .server)
            #expect(frame.dropFirst(4).elementsEqual((reason + kept).utf8))
        }
    }

    /// The mask goes on where the part before ended.
    @Test func aPayloadIsMaskedInParts() {
        var generator = SeededGenerator(seed: 1)
        for count in 0..<40 {
            let key = UInt32.random(in: .min ... .max, using: &generator)
            let plain = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let masked = plain.enumerated().map { $1 ^ UInt8(truncatingIfNeeded: key >> UInt32(24 - 8 * ($0 % 4))) }
            for split in 0...count {
                var (bytes, mask) = (plain, WebSocketMask(key))
                bytes.withUnsafeMutableBytes { bytes in
                    mask.apply(to: UnsafeMutableRawBufferPointer(rebasing: bytes[..<split]))
                    mask.apply(to: UnsafeMutableRawBufferPointer(rebasing: bytes[split...]))
                }
                #expect(bytes == masked)
            }
        }
    }
}
