/// Writes the RTCP packets of a participant (RFC 3550 section 6, RFC 4585 section 6).
package enum RTCPPackets {
    /// The sender information of a sender report.
    package struct SenderInformation {
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

    static func senderReport(
        _ ssrc: UInt32, _ sender: SenderInformation, _ reports: some Collection<ReceptionReport>
    ) -> [UInt8] {
        let words = [
            ssrc, UInt32(truncatingIfNeeded: sender.ntp >> 32), UInt32(truncatingIfNeeded: sender.ntp),
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

    static func bye(_ ssrcs: [UInt32]) -> [UInt8] {
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
}

/// A message of a received compound packet, about one of our streams or of the remote peer's. Peers choose all values.
package enum RTCPMessage {
    /// `timestamp` is the RTP time at the NTP time, which is 32.32 fixed point.
    case senderReport(ssrc: UInt32, ntp: UInt64, timestamp: UInt32)
    /// The CNAME of a source description.
    case name(ssrc: UInt32, cname: [UInt8])
    case nack(ssrc: UInt32, sequences: [UInt16])
    case keyframeRequest(ssrc: UInt32)

    /// Calls `visit` for each message of a compound packet.
    package static func forEach(in compound: UnsafeRawBufferPointer, _ visit: (RTCPMessage) -> Void) {
        RTCPCompound.forEachPacket(in: compound) { packet in
            let body = packet.body
            switch (packet.type, packet.count) {
            case (200, _) where body.count >= 24:
                let ntp = UInt64(body.bigEndian32(at: 4)) << 32 | UInt64(body.bigEndian32(at: 8))
                visit(.senderReport(ssrc: body.bigEndian32(at: 0), ntp: ntp, timestamp: body.bigEndian32(at: 12)))
            case (202, _): forEachName(in: body, count: Int(packet.count)) { visit(.name(ssrc: $0, cname: $1)) }
            case (205, 1) where body.count >= 12:
                var sequences: [UInt16] = []
                for at in stride(from: 8, through: body.count - 4, by: 4) {
                    let (first, others) = (body.bigEndian16(at: at), body.bigEndian16(at: at + 2))
                    sequences.append(first)
                    for bit in 0..<16 where others & 1 << UInt16(bit) != 0 {
                        sequences.append(first &+ UInt16(bit) &+ 1)
                    }
                }
                visit(.nack(ssrc: body.bigEndian32(at: 4), sequences: sequences))
            case (206, 1) where body.count >= 8: visit(.keyframeRequest(ssrc: body.bigEndian32(at: 4)))
            case (206, 4):
                // FIR (RFC 5104 section 4.3.1) names its targets in the entries.
                for at in stride(from: 8, through: body.count - 8, by: 8) {
                    visit(.keyframeRequest(ssrc: body.bigEndian32(at: at)))
                }
            default: break
            }
        }
    }

    private static func forEachName(
        in body: UnsafeRawBufferPointer, count: Int, _ visit: (UInt32, [UInt8]) -> Void
    ) {
        var at = 0
        for _ in 0..<count {
            guard body.count - at >= 8 else { return }
            let ssrc = body.bigEndian32(at: at)
            at += 4
            while at < body.count, body[at] != 0 {
                guard body.count - at >= 2, case let end = at + 2 + Int(body[at + 1]), end <= body.count else { return }
                if body[at] == 1 { visit(ssrc, Array(body[(at + 2)..<end])) }
                at = end
            }
            // The end of the items, and padding to the next multiple of four.
            at = (at / 4 + 1) * 4
        }
    }
}
