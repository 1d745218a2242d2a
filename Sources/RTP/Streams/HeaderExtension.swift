/// Reads header extensions of a packet from the network, with one-byte or two-byte headers (RFC 8285 sections 4.2 and 4.3).
/// A sender that may mix them chooses by packet: a long element needs a two-byte header.
package enum HeaderExtension {
    /// The value's range; nil if there is none or the packet is malformed.
    package static func value(_ id: UInt8, in packet: UnsafeRawBufferPointer) -> Range<Int>? {
        guard packet.count >= 12, packet[0] & 0x10 != 0 else { return nil }
        let fixed = 12 + Int(packet[0] & 0x0f) * 4
        guard packet.count >= fixed + 4 else { return nil }
        let profile = packet.bigEndian16(at: fixed)
        // The low bits of a two-byte profile are for the application.
        guard profile == 0xbede || profile & 0xfff0 == 0x1000 else { return nil }
        let hasTwoBytes = profile != 0xbede
        let end = fixed + 4 + Int(packet.bigEndian16(at: fixed + 2)) * 4
        guard packet.count >= end else { return nil }
        var at = fixed + 4
        while at < end {
            let head = packet[at]
            // A byte of padding.
            if head == 0 {
                at += 1
                continue
            }
            let found = hasTwoBytes ? head : head >> 4
            // ID 15 ends a list with one-byte headers.
            guard hasTwoBytes || found != 15, !hasTwoBytes || at + 1 < end else { return nil }
            let length = hasTwoBytes ? Int(packet[at + 1]) : Int(head & 0x0f) + 1
            let start = at + (hasTwoBytes ? 2 : 1)
            guard start + length <= end else { return nil }
            if found == id { return start..<start + length }
            at = start + length
        }
        return nil
    }
}

/// Reads the transport-wide sequence number in a packet's header extensions.
package enum TransportSequence {
    /// Returns nil if there is none or the packet is malformed.
    package static func number(in packet: UnsafeRawBufferPointer, id: UInt8) -> UInt16? {
        guard let value = HeaderExtension.value(id, in: packet), value.count >= 2 else { return nil }
        return packet.bigEndian16(at: value.lowerBound)
    }
}
