/// Follows the frames that a TURN server sends over TCP: STUN messages (RFC 8489 §5) and ChannelData (RFC 8656 §12.5). It
/// keeps none of their bytes.
package struct TURNFrames: Sendable {
    private static let cookie: UInt32 = 0x2112_A442

    /// The header of the present frame, as far as it has arrived: its bytes, the last one lowest, and their number.
    private var header: (bits: UInt64, size: Int) = (0, 0)
    /// Bytes of the present frame that are still to come.
    private var rest = 0
    private var hasFailed = false

    package init() {}

    /// - Returns: the number of frames that have begun; nil if the bytes are something else, and always after that.
    package mutating func follow(_ bytes: ArraySlice<UInt8>) -> Int? {
        var (at, count) = (bytes.startIndex, 0)
        while at < bytes.endIndex, !hasFailed {
            if rest > 0 {
                let part = min(rest, bytes.endIndex - at)
                at += part
                rest -= part
            } else {
                if take(bytes[at]) { count += 1 }
                at += 1
            }
        }
        return hasFailed ? nil : count
    }

    /// Takes the next byte of a header.
    /// - Returns: true if it is complete.
    private mutating func take(_ byte: UInt8) -> Bool {
        header = (header.bits << 8 | UInt64(byte), header.size + 1)
        let first = header.bits >> (8 * (header.size - 1))
        guard first < 0x80 else {
            hasFailed = true
            return false
        }
        let isChannel = first >= 0x40
        guard header.size == (isChannel ? 4 : 8) else { return false }
        let length = Int(header.bits >> (isChannel ? 0 : 32) & 0xFFFF)
        if isChannel {
            // Padded to four bytes.
            rest = (length + 3) & ~3
        } else {
            hasFailed = UInt32(truncatingIfNeeded: header.bits) != Self.cookie || length % 4 != 0
            rest = 20 - 8 + length
        }
        header = (0, 0)
        return !hasFailed
    }
}
