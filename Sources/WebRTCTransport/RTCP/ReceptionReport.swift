/// A report block of the remote peer about one of our streams (RFC 3550 section 6.4.1).
package struct ReceptionReport: Sendable, Equatable {
    package var ssrc: UInt32
    /// Fraction of packets lost since the previous report, in 1/256.
    package var fractionLost: UInt8
    /// Packets lost since the start of the stream; negative if more arrived than were expected.
    package var packetsLost: Int
    package var highestSequence: UInt32
    /// In RTP clock units.
    package var jitter: UInt32
    /// The middle 32 bits of the NTP time in our last sender report that arrived; 0: none did.
    package var lastSenderReport: UInt32
    /// In units of 1/65536 s.
    package var delaySinceLastSenderReport: UInt32

    package init(
        ssrc: UInt32, fractionLost: UInt8, packetsLost: Int = 0, highestSequence: UInt32, jitter: UInt32 = 0,
        lastSenderReport: UInt32, delaySinceLastSenderReport: UInt32
    ) {
        self.ssrc = ssrc
        self.fractionLost = fractionLost
        self.packetsLost = packetsLost
        self.highestSequence = highestSequence
        self.jitter = jitter
        self.lastSenderReport = lastSenderReport
        self.delaySinceLastSenderReport = delaySinceLastSenderReport
    }

    var bytes: [UInt8] {
        let lost = UInt32(bitPattern: Int32(clamping: max(-0x80_0000, min(packetsLost, 0x7f_ffff)))) & 0xff_ffff
        return [
            ssrc, UInt32(fractionLost) << 24 | lost, highestSequence, jitter, lastSenderReport,
            delaySinceLastSenderReport,
        ].flatMap(\.bigEndianBytes)
    }

    /// Returns the report blocks of every SR and RR in a compound packet.
    package static func parse(compound: UnsafeRawBufferPointer) -> [ReceptionReport] {
        var found: [ReceptionReport] = []
        RTCPCompound.forEachPacket(in: compound) { packet in
            // An SR (200) has 20 bytes of sender information after the sender's SSRC, an RR (201) none.
            guard packet.type == 200 || packet.type == 201 else { return }
            var at = packet.type == 200 ? 24 : 4
            for _ in 0..<packet.count {
                guard packet.body.count - at >= 24 else { return }
                found.append(
                    ReceptionReport(
                        ssrc: packet.body.bigEndian32(at: at), fractionLost: packet.body[at + 4],
                        // 24 bits, signed.
                        packetsLost: Int(Int32(bitPattern: packet.body.bigEndian32(at: at + 4) << 8) >> 8),
                        highestSequence: packet.body.bigEndian32(at: at + 8),
                        jitter: packet.body.bigEndian32(at: at + 12),
                        lastSenderReport: packet.body.bigEndian32(at: at + 16),
                        delaySinceLastSenderReport: packet.body.bigEndian32(at: at + 20)))
                at += 24
            }
        }
        return found
    }
}
