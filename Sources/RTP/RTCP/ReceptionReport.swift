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

    /// Reads 24 bytes; the caller must have checked the bounds.
    init(block bytes: UnsafeRawBufferPointer, at offset: Int) {
        self.init(
            ssrc: bytes.bigEndian32(at: offset), fractionLost: bytes[offset + 4],
            // 24 bits, signed.
            packetsLost: Int(Int32(bitPattern: bytes.bigEndian32(at: offset + 4) << 8) >> 8),
            highestSequence: bytes.bigEndian32(at: offset + 8), jitter: bytes.bigEndian32(at: offset + 12),
            lastSenderReport: bytes.bigEndian32(at: offset + 16),
            delaySinceLastSenderReport: bytes.bigEndian32(at: offset + 20))
    }
}
