// What the first bytes of an RTP payload say about the video in it. Values only; a remote peer chooses the bytes.

extension VideoCodec {
    /// Bytes in front of the part of a frame that a packet carries, if the frame may go on in the next packet.
    func fragmentHeader(_ payload: UnsafeRawBufferPointer) -> Int {
        guard let first = payload.first else { return 0 }
        let length =
            switch self {
            case .vp8: Self.vp8Descriptor(payload)
            case .vp9: VP9PayloadDescriptor(payload)?.length ?? 0
            // FU-A and FU-B (RFC 6184 5.8).
            case .h264: first & 0x1f == 28 ? 2 : first & 0x1f == 29 ? 4 : 0
            }
        return min(length, payload.count)
    }

    /// RFC 7741 4.2.
    private static func vp8Descriptor(_ payload: UnsafeRawBufferPointer) -> Int {
        guard payload.count > 1, payload[0] & 0x80 != 0 else { return 1 }
        let extensions = payload[1]
        var length = 2
        if extensions & 0x80 != 0 { length += payload.count > 2 && payload[2] & 0x80 != 0 ? 2 : 1 }
        if extensions & 0x40 != 0 { length += 1 }
        if extensions & 0x30 != 0 { length += 1 }
        return length
    }
}
