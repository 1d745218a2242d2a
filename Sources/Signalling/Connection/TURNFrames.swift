/// Follows the frames that a TURN server sends over TCP: STUN messages (RFC 8489 §5) and ChannelData (RFC 8656 §12.5). It
/// keeps none of their bytes.
package struct TURNFrames: Sendable {
    private static let cookie: UInt32 = 0x2112_A442

    /// The header of the present frame, as far as it has arrived: its bytes, the last one lowest, and their number.
    private var header: (bits: UInt64, size: Int) = (0, 0)
    /// Bytes of the present frame that are still to come.
    private var rest = 0
    private var hasFailed = false
    /// The attributes of an error response: the header of the present one as far as it has arrived, with its size, and the
    /// bytes in front of the next one; nil in other frames.
    private var attributes: (bits: UInt32, size: Int, skipped: Int)?
    /// An error response has named another server (ALTERNATE-SERVER, RFC 8489 §10).
    package private(set) var redirects = false

    package init() {}

    /// - Returns: the number of frames that have begun; nil if the bytes are something else, and always after that.
    package mutating func follow(_ bytes: ArraySlice<UInt8>) -> Int? {
        var (at, count) = (bytes.startIndex, 0)
        while at < bytes.endIndex, !hasFailed {
            if rest > 0 {
                let part = min(rest, bytes.endIndex - at)
                if attributes != nil { for byte in bytes[at..<at + part] { read(byte) } }
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
            attributes = nil
        } else {
            hasFailed = UInt32(truncatingIfNeeded: header.bits) != Self.cookie || length % 4 != 0
            rest = 20 - 8 + length
            // The transaction ID comes first.
            attributes = header.bits >> 48 & 0x0110 == 0x0110 ? (0, 0, 20 - 8) : nil
        }
        header = (0, 0)
        return !hasFailed
    }

    private mutating func read(_ byte: UInt8) {
        guard var next = attributes else { return }
        if next.skipped > 0 {
            next.skipped -= 1
        } else {
            next = (next.bits << 8 | UInt32(byte), next.size + 1, 0)
        }
        if next.size == 4 {
            redirects = redirects || next.bits >> 16 == 0x8023
            next = (0, 0, (Int(next.bits & 0xFFFF) + 3) & ~3)
        }
        attributes = next
    }
}
