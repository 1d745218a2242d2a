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
            case .h265: first >> 1 & 0x3f == 49 ? 3 : 0
            }
        return min(length, payload.count)
    }

    /// True for the first packet of a keyframe, with which a stream of this codec may begin.
    package func beginsKeyframe(_ payload: UnsafeRawBufferPointer) -> Bool {
        switch self {
        case .vp8:
            let header = Self.vp8Descriptor(payload)
            // S, and partition 0.
            guard payload.count > header, payload[0] & 0x17 == 0x10 else { return false }
            return payload[header] & 1 == 0
        case .vp9:
            // B without P, and the lowest spatial layer if there are several.
            guard let descriptor = VP9PayloadDescriptor(payload), payload[0] & 0x48 == 0x08 else { return false }
            return descriptor.layerIndices.map { payload[$0] & 0x0e == 0 } ?? true
        case .h264: return Self.h264Type(payload).map { $0 == 5 || $0 == 7 } ?? false
        // A random access point, or a parameter set.
        case .h265: return Self.h265Type(payload).map { (16...21).contains($0) || (32...34).contains($0) } ?? false
        }
    }

    /// True for the first packet of a keyframe for which a decoder needs nothing that was sent before it: one of H.264 or
    /// H.265 begins with its parameter sets.
    package func beginsDecoding(_ payload: UnsafeRawBufferPointer) -> Bool {
        switch self {
        case .vp8, .vp9: beginsKeyframe(payload)
        case .h264: Self.h264Type(payload) == 7
        case .h265: Self.h265Type(payload) == 32
        }
    }

    /// True for the first packet of a frame of H.264 or H.265 that may be a keyframe: a delimiter, the first parameter set, or
    /// the slice of a keyframe that has its first block.
    package func beginsAccessUnit(_ payload: UnsafeRawBufferPointer) -> Bool {
        let isAggregate: Bool
        let isFragment: Bool
        switch self {
        case .h264:
            guard let type = Self.h264Type(payload) else { return false }
            if type == 7 || type == 9 { return true }
            guard type == 5 else { return false }
            (isAggregate, isFragment) = (payload[0] & 0x1f == 24, [28, 29].contains(payload[0] & 0x1f))
        case .h265:
            guard let type = Self.h265Type(payload) else { return false }
            if type == 32 || type == 35 { return true }
            guard (16...21).contains(type) else { return false }
            (isAggregate, isFragment) = (payload[0] >> 1 & 0x3f == 48, payload[0] >> 1 & 0x3f == 49)
        case .vp8, .vp9: return false
        }
        // The byte behind the NAL unit's header: the number of the slice's first block is 0 if its first bit is 1 in both.
        let header = self == .h264 ? 1 : 2
        let at = header + (isAggregate ? 2 + header : isFragment ? 1 : 0)
        return payload.count > at && payload[at] & 0x80 != 0
    }

    /// The type of the NAL unit that begins in a packet (RFC 6184 5.4), the first one of an aggregation packet.
    private static func h264Type(_ payload: UnsafeRawBufferPointer) -> UInt8? {
        guard let first = payload.first else { return nil }
        switch first & 0x1f {
        case 24: return payload.count > 3 ? payload[3] & 0x1f : nil
        case 28, 29: return payload.count > 1 && payload[1] & 0x80 != 0 ? payload[1] & 0x1f : nil
        case let type: return type
        }
    }

    /// As `h264Type` (RFC 7798 4.4).
    private static func h265Type(_ payload: UnsafeRawBufferPointer) -> UInt8? {
        guard let first = payload.first else { return nil }
        switch first >> 1 & 0x3f {
        case 48: return payload.count > 4 ? payload[4] >> 1 & 0x3f : nil
        case 49: return payload.count > 2 && payload[2] & 0x80 != 0 ? payload[2] & 0x3f : nil
        case let type: return type
        }
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
