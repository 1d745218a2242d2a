/// Puts the packets of one stream in order, says which to request again, and gives up those that come too late. A value
/// without a clock; it knows sequence numbers and times only.
package struct JitterBuffer<Packet> {
    package enum Insertion: Equatable {
        /// It is the next one, and nothing waits: take it now, without `next`.
        case inOrder
        /// It is in the buffer.
        case waits
        /// A duplicate, or too late.
        case refused
        /// The sender began a new numbering: as `waits`; whatever waited before is dropped.
        case restarted
    }
    package enum Output {
        case packet(Packet)
        /// Packets that were given up, from the first one on.
        case lost(sequence: UInt16, count: Int)
    }

    private struct Missing {
        /// One number, or the part of a gap that is too long to be waited for.
        var numbers: Range<Int64>
        var deadline: Duration
        /// nil: not requested (again).
        var request: Duration?
    }

    private let latency: Duration
    /// The time from the discovery of a gap to the first request: most packets that are out of order arrive meanwhile. nil:
    /// nothing is requested.
    private let requestDelay: Duration?
    /// The time from a request to the next one.
    package var retry = Duration.milliseconds(100)
    private var sequences = SerialNumber<UInt16>()
    private var expected: Int64 = 0
    private var waiting: [Int64: Packet] = [:]
    /// In ascending order. Everything else from `expected` to the highest number waits.
    private var missing: [Missing] = []
    /// No request is due earlier, so that not each packet has to visit all that is missing.
    private var earliestRequest: Duration?
    private var lastArrival = Duration.zero
    /// The latest packet, if its number is far from the others. It begins a new numbering if the next one follows it (RFC 3550
    /// A.1), and is late or damaged otherwise.
    private var outlier: (packet: Packet, sequence: UInt16)?
    /// A NACK with so many single packets still fits into a datagram, and a sender keeps hardly more.
    private static var mostRequested: Int { 256 }
    /// A remote peer that skips numbers with each packet must not fill the memory. The oldest are given up first.
    private static var mostMissing: Int { 4 * mostRequested }

    /// - Parameters:
    ///   - latency: how long a missing packet is waited for.
    ///   - requests: false: for a stream without retransmission.
    package init(latency: Duration, requests: Bool) {
        self.latency = latency
        requestDelay = requests ? .milliseconds(10) : nil
    }

    package var isWaiting: Bool { !missing.isEmpty }
    package func isMissing(_ sequence: UInt16) -> Bool {
        guard !missing.isEmpty else { return false }
        return place(of: sequences.extended(sequence)) != nil
    }

    package mutating func insert(_ packet: Packet, sequence: UInt16, now: Duration) -> Insertion {
        guard let highest = sequences.highest else {
            expected = sequences.take(sequence) + 1
            lastArrival = now
            return .inOrder
        }
        let number = sequences.extended(sequence)
        let step = number - highest
        let last = outlier
        outlier = nil
        if step > ReceptionStatistics.maximumDropout || step < -ReceptionStatistics.maximumMisorder {
            guard let last, sequence == last.sequence &+ 1 else {
                outlier = (packet, sequence)
                return .refused
            }
            missing.removeAll()
            sequences = SerialNumber()
            expected = sequences.take(last.sequence)
            waiting = [expected: last.packet, sequences.take(sequence): packet]
            lastArrival = now
            return .restarted
        }
        if step > 0 {
            if step > 1 { discover(highest + 1..<number, now) }
            _ = sequences.take(sequence)
            lastArrival = now
            if missing.isEmpty, number == expected {
                expected = number + 1
                return .inOrder
            }
        } else {
            guard let place = place(of: number) else { return .refused }
            missing.remove(at: place)
        }
        waiting[number] = packet
        return .waits
    }

    /// Packets are assumed to have been sent evenly since the last arrival: after a pause of the network, the older ones are
    /// given up at once. So is what cannot be requested together.
    private mutating func discover(_ numbers: Range<Int64>, _ now: Duration) {
        let interval = (now - lastArrival) / Double(numbers.count + 1)
        let awaited = numbers.suffix(Self.mostRequested)
        if awaited.count < numbers.count {
            missing.append(Missing(numbers: numbers.lowerBound..<awaited.lowerBound, deadline: now, request: nil))
        }
        let request = requestDelay.map { now + $0 }
        for number in awaited {
            let due = lastArrival + interval * Double(number - numbers.lowerBound + 1)
            let deadline = due + latency
            missing.append(
                Missing(numbers: number..<number + 1, deadline: deadline, request: deadline > now ? request : nil))
        }
        if let request { earliestRequest = min(earliestRequest ?? request, request) }
        for index in 0..<max(0, missing.count - Self.mostMissing) {
            (missing[index].deadline, missing[index].request) = (min(missing[index].deadline, now), nil)
        }
    }

    private func place(of number: Int64) -> Int? {
        var (low, high) = (0, missing.count)
        while low < high {
            let middle = (low + high) / 2
            if missing[middle].numbers.lowerBound < number { low = middle + 1 } else { high = middle }
        }
        return low < missing.count && missing[low].numbers == number..<number + 1 ? low : nil
    }

    /// The next packet in order, or the packets before it whose time is over; nil: wait.
    package mutating func next(now: Duration) -> Output? {
        if let packet = waiting.removeValue(forKey: expected) {
            expected += 1
            return .packet(packet)
        }
        var (place, end) = (0, expected)
        while place < missing.count, missing[place].numbers.lowerBound == end, missing[place].deadline <= now {
            end = missing[place].numbers.upperBound
            place += 1
        }
        guard place > 0 else { return nil }
        defer { expected = end }
        missing.removeFirst(place)
        return .lost(sequence: UInt16(truncatingIfNeeded: expected), count: Int(end - expected))
    }

    /// The packets to request now.
    package mutating func requests(now: Duration) -> [UInt16] {
        guard let earliestRequest, earliestRequest <= now else { return [] }
        self.earliestRequest = nil
        var found: [UInt16] = []
        for index in missing.indices {
            guard var due = missing[index].request else { continue }
            if due <= now, found.count < Self.mostRequested {
                found.append(UInt16(truncatingIfNeeded: missing[index].numbers.lowerBound))
                due = now + retry
                missing[index].request = due < missing[index].deadline ? due : nil
            }
            if missing[index].request != nil { self.earliestRequest = min(self.earliestRequest ?? due, due) }
        }
        return found
    }

    /// When `next` or `requests` must be called, if no packet arrives before.
    package var nextWake: Duration? {
        missing.first.map { first in min(first.deadline, earliestRequest ?? first.deadline) }
    }
}
