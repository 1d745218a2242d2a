// The wire format of transport-wide congestion feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01 section
// 3.1). It knows bytes only, and must not know what was sent or how feedback is used. The remote peer writes all of its
// input.

/// A feedback message: which transport-wide sequence numbers arrived, and when by the remote peer's clock.
package struct TransportFeedback: Sendable, Equatable {
    package struct Packet: Sendable, Equatable {
        package enum Status: Sendable, Equatable {
            case lost
            /// Microseconds after `referenceTime`; may be negative.
            case received(after: Int64)
            /// Symbol 3, reserved in the draft, is in use for "arrived, time unknown".
            case receivedWithoutTime
        }
        package var sequence: UInt16
        package var status: Status
    }

    package var baseSequence: UInt16
    /// 24 bits, in units of 64 ms.
    package var referenceTime: UInt32
    /// Counts feedback messages modulo 256; a gap means lost feedback.
    package var feedbackCount: UInt8
    /// One entry for each sequence number from `baseSequence` on, without gaps.
    package var packets: [Packet]

    /// Limits the statuses in one datagram, since eight chunks could claim 65,535. No valid feedback has more.
    package static let maximumPackets = 4096

    /// `body` begins after the common header and ends before RTCP padding. Returns nil if damaged or over `budget`
    /// statuses.
    init?(body: UnsafeRawBufferPointer, budget: Int) {
        guard body.count >= 16 else { return nil }
        baseSequence = body.bigEndian16(at: 8)
        let count = Int(body.bigEndian16(at: 10))
        referenceTime = body.bigEndian32(at: 12) >> 8
        feedbackCount = body[15]
        guard count > 0, count <= budget else { return nil }

        packets = []
        packets.reserveCapacity(count)
        var at = 16
        var symbols: [UInt8] = []
        symbols.reserveCapacity(count)
        while symbols.count < count {
            guard body.count - at >= 2 else { return nil }
            Self.appendSymbols(of: body.bigEndian16(at: at), upTo: count, to: &symbols)
            at += 2
        }

        var time: Int64 = 0
        var sequence = baseSequence
        for symbol in symbols {
            let status: Packet.Status
            switch symbol {
            case 1:
                guard at < body.count else { return nil }
                time &+= Int64(body[at]) * Self.tick
                at += 1
                status = .received(after: time)
            case 2:
                guard body.count - at >= 2 else { return nil }
                time &+= Int64(Int16(bitPattern: body.bigEndian16(at: at))) * Self.tick
                at += 2
                status = .received(after: time)
            case 3: status = .receivedWithoutTime
            default: status = .lost
            }
            packets.append(Packet(sequence: sequence, status: status))
            sequence &+= 1
        }
    }

    /// Unit of deltas, µs (section 3.1.5).
    static let tick: Int64 = 250

    /// Decodes a chunk (sections 3.1.3 and 3.1.4): a run of one symbol, 14 one-bit symbols or 7 two-bit symbols.
    private static func appendSymbols(of chunk: UInt16, upTo count: Int, to symbols: inout [UInt8]) {
        let room = count - symbols.count
        if chunk & 0x8000 == 0 {
            let run = min(Int(chunk & 0x1fff), room)
            symbols.append(contentsOf: repeatElement(UInt8(truncatingIfNeeded: chunk >> 13 & 3), count: run))
        } else if chunk & 0x4000 == 0 {
            for index in 0..<min(14, room) {
                symbols.append(UInt8(truncatingIfNeeded: chunk >> (13 - UInt16(index)) & 1))
            }
        } else {
            for index in 0..<min(7, room) {
                symbols.append(UInt8(truncatingIfNeeded: chunk >> (12 - 2 * UInt16(index)) & 3))
            }
        }
    }
}

/// Extends 24-bit reference times, which wrap after 12 days, to a continuous timeline.
package struct ArrivalClock: Sendable {
    private var references = SerialNumber<UInt32>()
    package init() {}

    /// Microseconds on the remote peer's clock, from the zero of the first reference time.
    package mutating func microseconds(reference: UInt32) -> Int64 {
        // The upper 24 bits wrap together with the number. Feedback may be reordered.
        (references.record(reference << 8) >> 8) &* 64_000
    }
}
