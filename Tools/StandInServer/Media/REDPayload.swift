import WebRTCTransport

/// Redundant audio (RFC 2198). The packet repeats earlier Opus packets in front of the latest one.
package enum REDPayload {
    /// The RTP packet with its latest block alone; nil: it is of another type, or malformed.
    package static func opus(ofPacket packet: UnsafeRawBufferPointer, payloadType: Int) -> [UInt8]? {
        guard packet.count >= 12, Int(packet[1] & 0x7f) == payloadType else { return nil }
        let header = RTPHeader.length(packet)
        guard packet.count > header,
            let block = primary(of: UnsafeRawBufferPointer(rebasing: packet[header...]))
        else { return nil }
        return Array(packet[..<header]) + Array(block)
    }

    /// The latest block of an RTP packet's payload; nil: it is malformed.
    /// - Parameter payload: behind the RTP header.
    static func primary(of payload: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        var (at, redundant) = (0, 0)
        while at < payload.count {
            // The last header has one byte, its F bit is zero.
            guard payload[at] & 0x80 != 0 else {
                let start = at + 1 + redundant
                return start < payload.count ? UnsafeRawBufferPointer(rebasing: payload[start...]) : nil
            }
            guard at + 4 <= payload.count else { return nil }
            redundant += Int(payload[at + 2] & 0x03) << 8 | Int(payload[at + 3])
            at += 4
        }
        return nil
    }
}
