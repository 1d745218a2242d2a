/// Walks a compound RTCP packet (RFC 3550 section 6.1) with unchecked contents.
enum RTCPCompound {
    struct Packet {
        var type: UInt8
        /// Report count, source count or feedback message type.
        var count: UInt8
        /// The packet after its four-byte common header, without padding.
        var body: UnsafeRawBufferPointer
        /// Header, body and padding.
        var bytes: UnsafeRawBufferPointer
    }

    /// Stops at the first malformed header.
    static func forEachPacket(in compound: UnsafeRawBufferPointer, _ visit: (Packet) -> Void) {
        var at = 0
        while compound.count - at >= 4 {
            let length = (Int(compound.bigEndian16(at: at + 2)) + 1) * 4
            guard compound[at] >> 6 == 2, length <= compound.count - at else { return }
            var end = at + length
            if compound[at] & 0x20 != 0 {
                let padding = Int(compound[end - 1])
                guard padding > 0, padding <= length - 4 else { return }
                end -= padding
            }
            visit(
                Packet(
                    type: compound[at + 1], count: compound[at] & 0x1f,
                    body: UnsafeRawBufferPointer(rebasing: compound[(at + 4)..<end]),
                    bytes: UnsafeRawBufferPointer(rebasing: compound[at..<(at + length)])))
            at += length
        }
    }
}
