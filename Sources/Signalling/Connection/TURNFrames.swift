/// Follows the frames that a TURN server sends over TCP: STUN messages (RFC 8489 §5) and ChannelData (RFC 8656 §12.5).
package struct TURNFrames: Sendable {
    private static let cookie: [UInt8] = [0x21, 0x12, 0xA4, 0x42]

    private var header: [UInt8] = []
    /// Bytes of the present frame that are still to come.
    private var rest = 0

    package init() {}

    /// - Returns: the number of frames that have begun; nil if the bytes are something else.
    package mutating func follow(_ bytes: ArraySlice<UInt8>) -> Int? {
        var (bytes, count) = (bytes, 0)
        while let byte = bytes.first {
            if rest > 0 {
                let part = min(rest, bytes.count)
                bytes.removeFirst(part)
                rest -= part
                continue
            }
            bytes.removeFirst()
            header.append(byte)
            guard header[0] < 0x80 else { return nil }
            let isChannel = header[0] >= 0x40
            guard header.count == (isChannel ? 4 : 8) else { continue }
            let length = Int(header[2]) << 8 | Int(header[3])
            if isChannel {
                // Padded to four bytes.
                rest = (length + 3) & ~3
            } else {
                guard header[4...].elementsEqual(Self.cookie), length % 4 == 0 else { return nil }
                rest = 20 - 8 + length
            }
            header = []
            count += 1
        }
        return count
    }
}
