import RTP
import WebRTCTransport

/// Writes transport-cc feedback as a receiver would (draft-holmer-rmcat-transport-wide-cc-extensions-01 section 3.1).
enum FeedbackBytes {
    /// Builds a message from raw chunks and deltas; `words` overrides the length field.
    static func message(
        base: UInt16, count: UInt16, reference: UInt32 = 0, feedbackCount: UInt8 = 0, chunks: [UInt16],
        deltas: [UInt8] = [],
        padding: Int = 0, words: Int? = nil, type: UInt8 = 205, format: UInt8 = 15
    ) -> [UInt8] {
        var body: [UInt8] = [0, 0, 0, 1, 0, 0, 0, 2]
        body += big(base) + big(count)
        body += [
            UInt8(truncatingIfNeeded: reference >> 16), UInt8(truncatingIfNeeded: reference >> 8),
            UInt8(truncatingIfNeeded: reference),
        ]
        body.append(feedbackCount)
        for chunk in chunks { body += big(chunk) }
        body += deltas
        var hasPadding = padding > 0
        if padding > 0 {
            body += [UInt8](repeating: 0, count: padding - 1) + [UInt8(padding)]
        } else if body.count % 4 != 0 {
            let fill = 4 - body.count % 4
            body += [UInt8](repeating: 0, count: fill - 1) + [UInt8(fill)]
            hasPadding = true
        }
        let length = words ?? body.count / 4
        return [0x80 | (hasPadding ? 0x20 : 0) | format, type] + big(UInt16(truncatingIfNeeded: length)) + body
    }

    /// Builds the message that a receiver writes for arrivals in µs (nil: lost) from sequence number `base` on.
    static func message(base: UInt16, arrivals: [Int64?], feedbackCount: UInt8) -> [UInt8] {
        let first = arrivals.lazy.compactMap { $0 }.first ?? 0
        let reference = first / 64_000
        var time = reference * 64_000
        var symbols: [UInt16] = []
        var deltas: [UInt8] = []
        for arrival in arrivals {
            guard let arrival else {
                symbols.append(0)
                continue
            }
            let ticks = ((arrival - time) / 250)
            time += ticks * 250
            if (0...255).contains(ticks) {
                symbols.append(1)
                deltas.append(UInt8(ticks))
            } else {
                symbols.append(2)
                deltas += big(UInt16(bitPattern: Int16(clamping: ticks)))
            }
        }
        var chunks: [UInt16] = []
        var at = 0
        while at < symbols.count {
            let run = symbols[at...].prefix { $0 == symbols[at] }.count
            if run >= 7 {
                chunks.append(symbols[at] << 13 | UInt16(min(run, 8191)))
                at += min(run, 8191)
            } else {
                var chunk: UInt16 = 0xc000
                for (index, symbol) in symbols[at...].prefix(7).enumerated() {
                    chunk |= symbol << (12 - 2 * UInt16(index))
                }
                chunks.append(chunk)
                at += 7
            }
        }
        return message(
            base: base, count: UInt16(arrivals.count), reference: UInt32(truncatingIfNeeded: reference) & 0xff_ffff,
            feedbackCount: feedbackCount, chunks: chunks, deltas: deltas)
    }

    static func parse(_ bytes: [UInt8]) -> [TransportFeedback] {
        bytes.withUnsafeBytes { RTCPCompound(parsing: $0) }.transportFeedback
    }

    static func big(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xff)] }
    static func big(_ value: UInt32) -> [UInt8] { big(UInt16(value >> 16)) + big(UInt16(value & 0xffff)) }
}
