// Reads and writes REMB (draft-alvestrand-rmcat-remb-03), for remote peers without transport-wide feedback.

package enum RTCPFeedback {
    /// Returns the last REMB in a compound packet, bit/s; nil if there is none before the first damaged packet.
    package static func remoteBitrateEstimate(in compound: UnsafeRawBufferPointer) -> Int? {
        var found: Int?
        RTCPCompound.forEachPacket(in: compound) { packet in
            // PSFB (206), application layer feedback (FMT 15), "REMB" after two SSRCs.
            let body = packet.body
            guard packet.type == 206, packet.count == 15, body.count >= 16, body.bigEndian32(at: 8) == 0x5245_4d42
            else { return }
            let exponent = Int(body[13] >> 2)
            let mantissa = Int(body[13] & 3) << 16 | Int(body.bigEndian16(at: 14))
            found = exponent > 40 ? Int.max : mantissa << exponent
        }
        return found
    }

    /// Returns an empty receiver report, which RFC 3550 6.1 requires first, and a REMB for `mediaSSRC`.
    package static func makeREMB(bitrate: Int, senderSSRC: UInt32, mediaSSRC: UInt32) -> [UInt8] {
        var exponent = 0
        var mantissa = max(0, bitrate)
        while mantissa > 0x3ffff {
            mantissa >>= 1
            exponent += 1
        }
        var bytes: [UInt8] = [0x80, 201, 0, 1]
        bytes += senderSSRC.bigEndianBytes
        bytes += [0x8f, 206, 0, 5]
        bytes += senderSSRC.bigEndianBytes
        bytes += [0, 0, 0, 0, 0x52, 0x45, 0x4d, 0x42, 1]
        bytes.append(UInt8(truncatingIfNeeded: exponent << 2 | mantissa >> 16))
        bytes.append(UInt8(truncatingIfNeeded: mantissa >> 8))
        bytes.append(UInt8(truncatingIfNeeded: mantissa))
        bytes += mediaSSRC.bigEndianBytes
        return bytes
    }
}
