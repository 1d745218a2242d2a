/// A compound RTCP packet of the remote peer (RFC 3550 section 6.1), parsed once for all that use it. The remote peer
/// chooses all values. Each list is in the order of the packet, holds intact messages only, and ends at the first malformed
/// header.
package struct RTCPCompound: Sendable {
    package struct SenderReport: Sendable {
        package var ssrc: UInt32
        /// NTP time, 32.32 fixed point.
        package var ntp: UInt64
        /// The RTP time at the NTP time.
        package var timestamp: UInt32
    }

    /// SSRCs of the senders of SR and RR.
    package private(set) var reporters: [UInt32] = []
    package private(set) var senderReports: [SenderReport] = []
    package private(set) var receptionReports: [ReceptionReport] = []
    /// The CNAMEs of source descriptions.
    package private(set) var names: [(ssrc: UInt32, cname: [UInt8])] = []
    /// All together have at most `maximumRequested` numbers.
    package private(set) var nacks: [(ssrc: UInt32, sequences: [UInt16])] = []
    package private(set) var keyframeRequests: [UInt32] = []
    /// All together have at most `TransportFeedback.maximumPackets` statuses.
    package private(set) var transportFeedback: [TransportFeedback] = []
    /// The last REMB, bit/s.
    package private(set) var remoteBitrateEstimate: Int?

    private var statuses = 0
    private var requested = 0
    /// More than a sender keeps packets; each one is looked for.
    package static let maximumRequested = 1024

    package init(parsing bytes: UnsafeRawBufferPointer) {
        var at = 0
        while bytes.count - at >= 4 {
            let length = (Int(bytes.bigEndian16(at: at + 2)) + 1) * 4
            guard bytes[at] >> 6 == 2, length <= bytes.count - at else { return }
            var end = at + length
            if bytes[at] & 0x20 != 0 {
                let padding = Int(bytes[end - 1])
                guard padding > 0, padding <= length - 4 else { return }
                end -= padding
            }
            let body = UnsafeRawBufferPointer(rebasing: bytes[(at + 4)..<end])
            read(body, type: bytes[at + 1], count: Int(bytes[at] & 0x1f))
            at += length
        }
    }

    /// - Parameters:
    ///   - body: the packet after its four-byte common header, without padding.
    ///   - count: report count, source count or feedback message type.
    private mutating func read(_ body: UnsafeRawBufferPointer, type: UInt8, count: Int) {
        switch (type, count) {
        case (200, _):
            readReports(body, blocksAt: 24, count)
            guard body.count >= 24 else { return }
            let ntp = UInt64(body.bigEndian32(at: 4)) << 32 | UInt64(body.bigEndian32(at: 8))
            senderReports.append(
                SenderReport(ssrc: body.bigEndian32(at: 0), ntp: ntp, timestamp: body.bigEndian32(at: 12)))
        case (201, _): readReports(body, blocksAt: 4, count)
        case (202, _): readNames(body, count)
        case (205, 1): readNACK(body)
        case (205, 15):
            let room = TransportFeedback.maximumPackets - statuses
            guard let feedback = TransportFeedback(body: body, budget: room) else { return }
            statuses += feedback.packets.count
            transportFeedback.append(feedback)
        case (206, 1) where body.count >= 8: keyframeRequests.append(body.bigEndian32(at: 4))
        case (206, 4):
            // FIR (RFC 5104 section 4.3.1) names its targets in the entries.
            for at in stride(from: 8, through: body.count - 8, by: 8) {
                keyframeRequests.append(body.bigEndian32(at: at))
            }
        case (206, 15): readREMB(body)
        default: break
        }
    }

    private mutating func readReports(_ body: UnsafeRawBufferPointer, blocksAt start: Int, _ count: Int) {
        guard body.count >= 4 else { return }
        reporters.append(body.bigEndian32(at: 0))
        var at = start
        for _ in 0..<count {
            guard body.count - at >= 24 else { return }
            receptionReports.append(ReceptionReport(block: body, at: at))
            at += 24
        }
    }

    private mutating func readNames(_ body: UnsafeRawBufferPointer, _ count: Int) {
        var at = 0
        for _ in 0..<count {
            guard body.count - at >= 8 else { return }
            let ssrc = body.bigEndian32(at: at)
            at += 4
            while at < body.count, body[at] != 0 {
                guard body.count - at >= 2, case let end = at + 2 + Int(body[at + 1]), end <= body.count else { return }
                if body[at] == 1 { names.append((ssrc, Array(body[(at + 2)..<end]))) }
                at = end
            }
            // The end of the items, and padding to the next multiple of four.
            at = (at / 4 + 1) * 4
        }
    }

    private mutating func readNACK(_ body: UnsafeRawBufferPointer) {
        guard body.count >= 12 else { return }
        var sequences: [UInt16] = []
        for at in stride(from: 8, through: body.count - 4, by: 4) {
            guard requested + sequences.count < Self.maximumRequested else { break }
            let (first, others) = (body.bigEndian16(at: at), body.bigEndian16(at: at + 2))
            sequences.append(first)
            for bit in 0..<16 where others & 1 << UInt16(bit) != 0 {
                sequences.append(first &+ UInt16(bit) &+ 1)
            }
        }
        requested += sequences.count
        nacks.append((body.bigEndian32(at: 4), sequences))
    }

    /// Reads application layer feedback: a REMB has its name after two SSRCs (draft-alvestrand-rmcat-remb-03).
    private mutating func readREMB(_ body: UnsafeRawBufferPointer) {
        guard body.count >= 16, body.bigEndian32(at: 8) == 0x5245_4d42 else { return }
        let exponent = Int(body[13] >> 2)
        let mantissa = Int(body[13] & 3) << 16 | Int(body.bigEndian16(at: 14))
        remoteBitrateEstimate = exponent > 40 ? Int.max : mantissa << exponent
    }
}
