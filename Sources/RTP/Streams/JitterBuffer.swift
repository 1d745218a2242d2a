/// Puts the packets of one stream in order, says which to request again, and gives up those that no retransmission can bring
/// any more. A value without a clock; it knows sequence numbers and times only, and not when media are played.
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
        var discovered: Duration
    }

    /// False for a stream without retransmission.
    private let requests: Bool
    /// The time from a request to the next one.
    package var retry = Duration.milliseconds(100)
    private var reordering = Reordering()
    private var loss = LossLevel()
    /// Packets are held until then, because packets from before the first one may arrive; nil: the stream has begun.
    private var begins: Duration?
    /// The number behind the highest one, whose packet may be the lost end of a frame, and the time of its request, or of the
    /// next one if it has been requested.
    private var tail: (number: Int64, request: Duration, isRequested: Bool)?
    private var sequences = SerialNumber<UInt16>()
    private var expected: Int64 = 0
    private var waiting: [Int64: Packet] = [:]
    /// In ascending order. Everything else from `expected` to the highest number waits.
    private var missing: [Missing] = []
    /// The latest keyframe behind missing packets: its first packet, and its last one once that has arrived.
    private var keyframe: (first: Int64, last: Int64?)?
    /// No request is due earlier, so that not each packet has to visit all that is missing.
    private var earliestRequest: Duration?
    private var lastArrival = Duration.zero
    /// The latest packet, if its number is far from the others. It begins a new numbering if the next one follows it (RFC 3550
    /// A.1), and is late or damaged otherwise.
    private var outlier: (packet: Packet, sequence: UInt16)?
    /// Sequence numbers per NACK: they fit into one datagram; senders rarely keep more packets.
    private static var maximumRequested: Int { 256 }
    /// A remote peer that skips numbers with each packet must not fill the memory. The oldest are given up first.
    private static var maximumMissing: Int { 4 * maximumRequested }
    /// One missing packet must not keep all that a fast peer sends until its time is over: two seconds of 50 Mbit/s.
    package static var maximumWaiting: Int { 8192 }
    /// The first packets of a stream may arrive in another order, and a frame that lacks its first packet is lost.
    private static var longestStart: Duration { .milliseconds(20) }
    private static var longestReordering: Int64 { 64 }

    /// - Parameter requests: false: for a stream without retransmission.
    package init(requests: Bool) { self.requests = requests }

    /// How long a missing packet is waited for: with retransmission, for six requests, within the time that senders keep
    /// packets; without, for packets that are out of order.
    private var timeout: Duration {
        guard requests else { return max(.milliseconds(20), reordering.delay * 1.5) }
        return min(max(retry * 6, .milliseconds(500)), .seconds(2))
    }

    /// So much is lost that requests would only take room from new frames on a path that is too narrow: nothing is requested
    /// or waited for, and a keyframe is the way on.
    package var isBeyondRepair: Bool { requests && loss.isBeyondRepair }

    package var isWaiting: Bool { !missing.isEmpty || tail != nil }
    package func isMissing(_ sequence: UInt16) -> Bool {
        guard isWaiting else { return false }
        let number = sequences.extended(sequence)
        return tail?.number == number || place(of: number) != nil
    }

    /// True if a copy of the packet would be of use: it has not arrived, and was not given up.
    package func lacks(_ sequence: UInt16) -> Bool {
        guard let highest = sequences.highest else { return false }
        let number = sequences.extended(sequence)
        return number > highest ? number - highest <= Self.longestReordering : place(of: number) != nil
    }

    /// - Parameters:
    ///   - endsFrame: nothing has to follow soon.
    ///   - beginsKeyframe: a decoder can begin with it. Only asked for behind missing packets.
    ///   - isRetransmission: the packet is RTX (RFC 4588).
    package mutating func insert(
        _ packet: Packet, sequence: UInt16, endsFrame: Bool, beginsKeyframe: @autoclosure () -> Bool = false,
        isRetransmission: Bool = false, now: Duration
    ) -> Insertion {
        guard let highest = sequences.highest else {
            expected = sequences.record(sequence)
            lastArrival = now
            if endsFrame {
                expected += 1
                return .inOrder
            }
            begins = now + Self.longestStart
            waiting[expected] = packet
            return .waits
        }
        if endsFrame { begins = nil }
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
            (sequences, begins, tail, keyframe) = (SerialNumber(), nil, nil, nil)
            expected = sequences.record(last.sequence)
            waiting = [expected: last.packet, sequences.record(sequence): packet]
            lastArrival = now
            return .restarted
        }
        if step > 0 {
            if loss.arrived(behind: step - 1), isBeyondRepair { giveUp(now) }
            if step > 1 { discover(highest + 1..<number, now) }
            _ = sequences.record(sequence)
            (lastArrival, tail) = (now, nil)
            if missing.isEmpty, number == expected, begins == nil, waiting.isEmpty {
                expected = number + 1
                return .inOrder
            }
        } else if let place = place(of: number) {
            let discovered = missing.remove(at: place).discovered
            if isRetransmission {
                reordering.lost()
            } else {
                reordering.arrived(after: now - discovered)
                loss.wasNone()
            }
        } else {
            guard number < expected, expected - number <= Self.longestReordering else { return .refused }
            guard begins != nil else {
                // Without retransmission the timeout was too short, unless it is a duplicate, which is rare.
                if !requests { reordering.arrived(after: timeout) }
                return .refused
            }
            // It was sent before the first one that arrived.
            if number + 1 < expected { discover(number + 1..<expected, now, isBefore: true) }
            expected = number
        }
        waiting[number] = packet
        if waiting.count > Self.maximumWaiting {
            begins = nil
            giveUp(now)
        }
        if requests, !missing.isEmpty { noteKeyframe(number, begins: beginsKeyframe(), ends: endsFrame) }
        return .waits
    }

    /// Once a whole keyframe has arrived, nothing before it is waited for: a decoder needs none of it, and to show it first
    /// would keep the keyframe back for a round trip and more. Where the sender makes one by itself, after it has dropped
    /// frames, no repetition may come at all.
    private mutating func noteKeyframe(_ number: Int64, begins: Bool, ends: Bool) {
        if begins, number > keyframe?.first ?? .min { keyframe = (number, nil) }
        guard var found = keyframe, number >= found.first else { return }
        if ends { found.last = min(found.last ?? number, number) }
        keyframe = found
        guard let last = found.last else { return }
        let isWhole = missing.allSatisfy { !$0.numbers.overlaps(found.first..<last + 1) }
        guard isWhole else { return }
        keyframe = nil
        guard found.first > expected else { return }
        for old in waiting.keys where old < found.first { waiting[old] = nil }
        missing.removeAll { $0.numbers.upperBound <= found.first }
        let skipped = Missing(
            numbers: expected..<found.first, deadline: lastArrival, request: nil, discovered: lastArrival)
        missing.insert(skipped, at: 0)
    }

    /// The latest packet does not end its frame: the next packet is requested if it does not arrive within that time.
    package mutating func expectNext(within time: Duration, now: Duration) {
        guard requests, !isBeyondRepair, let highest = sequences.highest else { return }
        tail = (highest + 1, now + max(time, reordering.delay), false)
    }

    /// Packets are assumed to have been sent evenly since the last arrival. After a pause of the network, what a frame needs
    /// is too old, or too much to be requested together: then nothing of the gap is waited for, because only a keyframe helps.
    private mutating func discover(_ numbers: Range<Int64>, _ now: Duration, isBefore: Bool = false) {
        let interval = (now - lastArrival) / Double(numbers.count + 1)
        let timeout = timeout
        let isInTime = numbers.count <= Self.maximumRequested && lastArrival + interval + timeout > now
        guard !requests || !isBeyondRepair && isInTime else {
            missing.append(Missing(numbers: numbers, deadline: now, request: nil, discovered: now))
            return
        }
        let found = numbers.suffix(Self.maximumRequested).map { number in
            let due = lastArrival + interval * Double(number - numbers.lowerBound + 1)
            return Missing(
                numbers: number..<number + 1, deadline: (requests ? due : now) + timeout,
                request: firstRequest(number, now),
                discovered: now)
        }
        if found.count < numbers.count {
            let tooMany = numbers.lowerBound..<numbers.upperBound - Int64(found.count)
            missing.append(Missing(numbers: tooMany, deadline: now, request: nil, discovered: now))
        }
        missing.insert(contentsOf: found, at: isBefore ? 0 : missing.count)
        if let request = found.compactMap(\.request).min() {
            earliestRequest = min(earliestRequest ?? request, request)
        }
        for index in 0..<max(0, missing.count - Self.maximumMissing) {
            (missing[index].deadline, missing[index].request) = (min(missing[index].deadline, now), nil)
        }
    }

    /// Requests nothing of what is missing, and waits for none of it.
    private mutating func giveUp(_ now: Duration) {
        (earliestRequest, tail) = (nil, nil)
        for index in missing.indices {
            (missing[index].deadline, missing[index].request) = (min(missing[index].deadline, now), nil)
        }
    }

    private func firstRequest(_ number: Int64, _ now: Duration) -> Duration? {
        guard requests else { return nil }
        if let tail, tail.number == number, tail.isRequested { return tail.request }
        return now + reordering.delay
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
        if let begins {
            guard begins <= now else { return nil }
            self.begins = nil
        }
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
        reordering.lost()
        defer { expected = end }
        missing.removeFirst(place)
        return .lost(sequence: UInt16(truncatingIfNeeded: expected), count: Int(end - expected))
    }

    /// Decides which packets a generic NACK (RFC 4585 6.2.1) requests now; without retransmission, none.
    ///
    /// A missing packet is first requested when a later one has arrived and `Reordering.delay`, 0 to 40 ms, has passed.
    /// The packet behind the highest number may be the lost end of a frame: it is requested at the time that
    /// `expectNext` set, and repeated only once a later packet has shown that it is missing. A request is repeated
    /// after each `retry` until the packet arrives or is given up. `InboundRTP.pace` sets `retry` to the round trip and
    /// an eighth of it, at least 10 ms, in all 20 ms to 2 s; before the first round trip, of RTCP or a consent check, it is
    /// 100 ms. A packet is given up six times `retry`, but 500 ms to 2 s, after the time at which it should have arrived.
    /// A gap of more than 256 packets, or one that begins too late to be repaired, is not requested at all (`discover`), and
    /// nothing is while `isBeyondRepair`.
    /// - Returns: at most 256 numbers; the others are due at the next call.
    package mutating func requests(now: Duration) -> [UInt16] {
        var found: [UInt16] = []
        if let last = tail, last.request <= now, !last.isRequested {
            tail = (last.number, now + retry, true)
            found.append(UInt16(truncatingIfNeeded: last.number))
        }
        guard let earliestRequest, earliestRequest <= now else { return found }
        self.earliestRequest = nil
        for index in missing.indices {
            guard var due = missing[index].request else { continue }
            if due <= now, found.count < Self.maximumRequested {
                found.append(UInt16(truncatingIfNeeded: missing[index].numbers.lowerBound))
                due = now + retry
                missing[index].request = due < missing[index].deadline ? due : nil
            }
            if missing[index].request != nil { self.earliestRequest = min(self.earliestRequest ?? due, due) }
        }
        return found
    }

    /// When `next` or `requests` must be called, if no packet arrives before.
    // Asked for after each batch of packets: inlined, so that the buffer is not copied for the call.
    @inline(__always) package var nextWake: Duration? {
        var next = begins
        if let first = missing.first { next = .earlier(next, .earlier(first.deadline, earliestRequest)) }
        if let tail, !tail.isRequested { next = .earlier(next, tail.request) }
        return next
    }
}

/// How long packets that were overtaken are usually late: to request them sooner would be in vain. Where gaps are losses, it
/// falls to nothing. A value.
private struct Reordering {
    private(set) var delay = Duration.zero
    /// A longer wait would cost more than needless requests do.
    private static var longest: Duration { .milliseconds(40) }

    /// A packet has arrived by itself.
    mutating func arrived(after time: Duration) {
        // An expectile near the 85th percentile, and a quarter more.
        let difference = time * 1.25 - delay
        delay = min(delay + (difference > .zero ? difference / 4 : difference / 24), Self.longest)
    }

    /// A packet had to be sent once more.
    mutating func lost() { delay -= delay / 16 }
}

/// How many packets do not arrive at first, over some 128 arrivals. A value.
private struct LossLevel {
    /// Lost packets for each that arrives.
    private var level = 0.0
    private(set) var isBeyondRepair = false
    /// A longer gap is one interruption of the path, and says no more about what the path carries otherwise.
    private static var longestGap: Int64 { 8 }
    private static var arrivals: Double { 128 }
    /// The highest level, so that a path that carries all packets again is noticed soon.
    private static var highest: Double { 2 }

    /// - Parameter lost: numbers that are missing in front of the packet.
    /// - Returns: true if `isBeyondRepair` has changed.
    mutating func arrived(behind lost: Int64) -> Bool {
        level = min(level + (Double(min(lost, Self.longestGap)) - level) / Self.arrivals, Self.highest)
        // Begins where one half is lost, so that the repetitions would need more room than the packets themselves, and ends
        // at a quarter.
        let before = isBeyondRepair
        isBeyondRepair = level > (before ? 1.0 / 3 : 1)
        return isBeyondRepair != before
    }

    /// A packet that seemed to be lost was only overtaken.
    mutating func wasNone() { level = max(0, level - 1 / Self.arrivals) }
}
