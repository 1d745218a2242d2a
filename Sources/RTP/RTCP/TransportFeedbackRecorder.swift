/// Records when packets with transport-wide sequence numbers arrive and writes the feedback about them
/// (draft-holmer-rmcat-transport-wide-cc-extensions-01 section 3.1). A value; its times are in microseconds.
package struct TransportFeedbackRecorder: Sendable {
    private var sequences = SerialNumber<UInt16>()
    /// The packets since the last feedback, and those before it that a later packet may be out of order with.
    private var arrivals: [Int64: Int64] = [:]
    /// The number after the highest one in a feedback.
    private var next: Int64?
    /// The numbers that arrived since the last feedback, ascending if `isSorted`.
    private var pending: [Int64] = []
    private var isSorted = true
    private var feedbackCount: UInt8 = 0

    /// Older packets are not reported again.
    private static let history: Int64 = 500
    /// Takes 600 bytes at most: two for each delta, and a chunk of two bytes for seven statuses.
    private static let maximumStatuses: Int64 = 250

    package init() {}

    package var isEmpty: Bool { pending.isEmpty }

    package mutating func received(_ sequence: UInt16, now: Duration) {
        let number = sequences.record(sequence)
        guard arrivals[number] == nil else { return }
        if let next, number < next - Self.history { return }
        arrivals[number] = now.inMicroseconds
        isSorted = isSorted && pending.last.map { $0 < number } ?? true
        pending.append(number)
    }

    /// The body of an RTPFB message with FMT 15, after the two SSRCs; nil: nothing arrived since the last one. Call it until
    /// it is nil.
    package mutating func takeFeedback() -> [UInt8]? {
        if !isSorted { pending.sort() }
        isSorted = true
        guard let earliest = pending.first, let highest = sequences.highest, let begin = arrivals[earliest] else {
            return nil
        }
        // The packets that were lost after the last feedback are in this one.
        var base = min(earliest, next ?? earliest)
        if highest - base >= 8 * Self.maximumStatuses { base = earliest }
        let reference = begin / 64_000
        var time = reference * 64_000 / TransportFeedback.tick
        var symbols: [UInt8] = []
        var deltas: [UInt8] = []
        var number = base
        while number <= highest, number - base < Self.maximumStatuses {
            if let arrival = arrivals[number] {
                let delta = arrival / TransportFeedback.tick - time
                // A pause of more than eight seconds: the rest gets a reference time of its own.
                guard let short = Int16(exactly: delta) else { break }
                time += delta
                if (0...255).contains(delta) {
                    symbols.append(1)
                    deltas.append(UInt8(delta))
                } else {
                    symbols.append(2)
                    deltas.append(UInt8(truncatingIfNeeded: short >> 8))
                    deltas.append(UInt8(truncatingIfNeeded: short))
                }
            } else {
                symbols.append(0)
            }
            number += 1
        }
        let end = max(next ?? number, number)
        next = end
        pending.removeFirst(pending.firstIndex { $0 >= number } ?? pending.count)
        if pending.isEmpty, arrivals.count > 2 * Int(Self.history) {
            arrivals = arrivals.filter { $0.key >= end - Self.history }
        }
        var body: [UInt8] = []
        for value in [UInt16(truncatingIfNeeded: base), UInt16(symbols.count)] {
            body += [UInt8(value >> 8), UInt8(truncatingIfNeeded: value)]
        }
        let units = UInt32(truncatingIfNeeded: reference) & 0xff_ffff
        body += (units << 8 | UInt32(feedbackCount)).bigEndianBytes
        feedbackCount &+= 1
        Self.appendChunks(symbols, to: &body)
        body += deltas
        while body.count % 4 != 0 { body.append(0) }
        return body
    }

    /// Runs of one symbol where they are longer than a vector of seven symbols, which take two bits each.
    private static func appendChunks(_ symbols: [UInt8], to body: inout [UInt8]) {
        var at = 0
        while at < symbols.count {
            let symbol = symbols[at]
            var run = 1
            while at + run < symbols.count, symbols[at + run] == symbol, run < 0x1fff { run += 1 }
            var chunk: UInt16
            if run > 7 || at + run == symbols.count {
                chunk = UInt16(symbol) << 13 | UInt16(run)
                at += run
            } else {
                chunk = 0xc000
                for index in 0..<7 where at + index < symbols.count {
                    chunk |= UInt16(symbols[at + index]) << (12 - 2 * UInt16(index))
                }
                at += 7
            }
            body += [UInt8(chunk >> 8), UInt8(truncatingIfNeeded: chunk)]
        }
    }
}
