/// Writes the RTCP packets of a participant (RFC 3550 section 6, RFC 4585 section 6, draft-alvestrand-rmcat-remb-03).
package enum RTCPPackets {
    /// The counters of one of our streams.
    package struct SenderInformation: Sendable {
        var ssrc: UInt32
        /// NTP time, 32.32 fixed point.
        var ntp: UInt64
        var timestamp: UInt32
        var packets: UInt32
        var octets: UInt32
    }

    /// - Parameter count: report count, source count or feedback message type.
    private static func packet(_ type: UInt8, count: Int, _ body: [UInt8]) -> [UInt8] {
        let words = body.count / 4
        return [
            0x80 | UInt8(truncatingIfNeeded: count & 0x1f), type, UInt8(truncatingIfNeeded: words >> 8),
            UInt8(truncatingIfNeeded: words),
        ] + body
    }

    static func senderReport(_ sender: SenderInformation, _ reports: some Collection<ReceptionReport>) -> [UInt8] {
        let words = [
            sender.ssrc, UInt32(truncatingIfNeeded: sender.ntp >> 32), UInt32(truncatingIfNeeded: sender.ntp),
            sender.timestamp,
            sender.packets, sender.octets,
        ]
        return packet(200, count: reports.count, words.flatMap(\.bigEndianBytes) + reports.flatMap(\.bytes))
    }

    package static func receiverReport(_ ssrc: UInt32, _ reports: some Collection<ReceptionReport> = []) -> [UInt8] {
        packet(201, count: reports.count, ssrc.bigEndianBytes + reports.flatMap(\.bytes))
    }

    package static func sourceDescription(_ ssrcs: [UInt32], cname: String) -> [UInt8] {
        let name = Array(cname.utf8.prefix(255))
        // The list of items ends with one to four zeros.
        var chunk: [UInt8] = [1, UInt8(name.count)] + name + [0]
        while chunk.count % 4 != 0 { chunk.append(0) }
        return packet(202, count: ssrcs.count, ssrcs.flatMap { $0.bigEndianBytes + chunk })
    }

    package static func bye(_ ssrcs: [UInt32]) -> [UInt8] {
        packet(203, count: ssrcs.count, ssrcs.flatMap(\.bigEndianBytes))
    }

    /// - Parameter sequences: in ascending order.
    package static func nack(_ sequences: [UInt16], from sender: UInt32, to media: UInt32) -> [UInt8] {
        var items: [(first: UInt16, others: UInt16)] = []
        for sequence in sequences {
            if let last = items.last, case let step = sequence &- last.first, (1...16).contains(step) {
                items[items.count - 1].others |= 1 << (step - 1)
            } else {
                items.append((sequence, 0))
            }
        }
        let body = items.flatMap { (UInt32($0.first) << 16 | UInt32($0.others)).bigEndianBytes }
        return packet(205, count: 1, sender.bigEndianBytes + media.bigEndianBytes + body)
    }

    package static func pictureLossIndication(from sender: UInt32, to media: UInt32) -> [UInt8] {
        packet(206, count: 1, sender.bigEndianBytes + media.bigEndianBytes)
    }

    package static func transportFeedback(_ body: [UInt8], from sender: UInt32, to media: UInt32) -> [UInt8] {
        packet(205, count: 15, sender.bigEndianBytes + media.bigEndianBytes + body)
    }

    /// Returns an empty receiver report, which RFC 3550 6.1 requires first, and a REMB for `mediaSSRC`.
    package static func makeREMB(bitrate: Int, senderSSRC: UInt32, mediaSSRC: UInt32) -> [UInt8] {
        var exponent = 0
        var mantissa = max(0, bitrate)
        while mantissa > 0x3ffff {
            mantissa >>= 1
            exponent += 1
        }
        let rate = UInt32(truncatingIfNeeded: 1 << 24 | exponent << 18 | mantissa)
        return receiverReport(senderSSRC)
            + packet(206, count: 15, [senderSSRC, 0, 0x5245_4d42, rate, mediaSSRC].flatMap(\.bigEndianBytes))
    }
}
