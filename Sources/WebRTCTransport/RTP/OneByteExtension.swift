/// Reads one-byte header extensions of a packet from the network (RFC 8285 section 4.2).
enum OneByteExtension {
    /// The value's range; nil if there is none or the packet is malformed.
    static func value(_ id: UInt8, in packet: UnsafeRawBufferPointer) -> Range<Int>? {
        guard packet.count >= 12, packet[0] & 0x10 != 0 else { return nil }
        let fixed = 12 + Int(packet[0] & 0x0f) * 4
        guard packet.count >= fixed + 4, packet.bigEndian16(at: fixed) == 0xbede else { return nil }
        let end = fixed + 4 + Int(packet.bigEndian16(at: fixed + 2)) * 4
        guard packet.count >= end else { return nil }
        var at = fixed + 4
        while at < end {
            let head = packet[at]
            if head == 0 {
                at += 1
                continue
            }
            // ID 15 ends the list.
            guard head >> 4 != 15 else { return nil }
            let length = Int(head & 0x0f) + 1
            guard at + 1 + length <= end else { return nil }
            if head >> 4 == id { return (at + 1)..<(at + 1 + length) }
            at += 1 + length
        }
        return nil
    }
}

/// Reads the transport-wide sequence number in a packet's one-byte header extensions (RFC 8285 section 4.2).
package enum TransportSequence {
    /// Returns nil if there is none or the packet is malformed.
    package static func number(in packet: UnsafeRawBufferPointer, id: UInt8) -> UInt16? {
        guard let value = OneByteExtension.value(id, in: packet), value.count >= 2 else { return nil }
        return packet.bigEndian16(at: value.lowerBound)
    }
}
