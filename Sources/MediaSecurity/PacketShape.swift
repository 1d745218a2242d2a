/// Length checks that libsrtp leaves to its caller: all lengths in the headers must lie within the packet
/// (CVE-2015-6360, an underflow in `srtp_unprotect_rtcp`).
enum PacketShape {
    /// - Parameter length: bytes without the authentication tag; may be negative.
    static func isRTP(_ bytes: UnsafeMutableRawBufferPointer, length: Int) -> Bool {
        // RFC 3550 §5.1: version 2, a fixed header of 12 bytes, the CSRC list, at most one header extension.
        guard length >= 12, length <= bytes.count, bytes[0] >> 6 == 2 else { return false }
        var header = 12 + 4 * Int(bytes[0] & 0x0f)
        guard header <= length else { return false }
        if bytes[0] & 0x10 != 0 {
            guard header + 4 <= length else { return false }
            header += 4 + 4 * (Int(bytes[header + 2]) << 8 | Int(bytes[header + 3]))
            guard header <= length else { return false }
        }
        return true
    }

    /// - Parameter length: bytes without the SRTCP index and the authentication tag; may be negative.
    static func isRTCP(_ bytes: UnsafeMutableRawBufferPointer, length: Int) -> Bool {
        // RFC 3550 §6.4: the header and the sender's SSRC. The rest of a compound packet is encrypted.
        length >= 8 && length <= bytes.count && bytes[0] >> 6 == 2
    }
}
