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

extension UInt32 {
    var bigEndianBytes: [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: self >> (24 - 8 * UInt32($0))) } }
}

/// Estimates the receive bitrate for a remote peer without transport-cc. Loss-based, as in draft-ietf-rmcat-gcc-02
/// section 6: above 10 % loss it falls by half the loss, below 2 % it grows by 5 %.
package struct ReceiveBitrateEstimator {
    package private(set) var estimate: Int
    private let maximum: Int
    private let minimum = 100_000
    private var highest: UInt32?
    private var expected = 0
    private var received = 0

    package init(maximum: Int) {
        self.maximum = max(maximum, minimum)
        estimate = self.maximum
    }

    /// Counts a packet of the main stream.
    package mutating func packet(sequence: UInt16) {
        received &+= 1
        guard let last = highest else {
            highest = UInt32(sequence)
            expected &+= 1
            return
        }
        let step = Int16(bitPattern: sequence &- UInt16(truncatingIfNeeded: last))
        guard step > 0 else { return }
        expected &+= Int(step)
        highest = last &+ UInt32(step)
    }

    /// Ends the interval since the last call and updates the estimate.
    package mutating func update() {
        defer { (expected, received) = (0, 0) }
        guard expected > 0 else { return }
        let loss = Double(max(0, expected - received)) / Double(expected)
        if loss > 0.1 {
            estimate = max(minimum, Int(Double(estimate) * (1 - 0.5 * loss)))
        } else if loss < 0.02 {
            estimate = min(maximum, Int(Double(estimate) * 1.05))
        }
    }
}
