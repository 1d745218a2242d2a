/// The lowest delay of the last 30 to 60 s: the delay of the path without a queue. Old values expire, because routes
/// change, and rise, because the remote clock may be slewed: faster by 0.1 %, it would look like a queue of 60 ms after a
/// minute. In µs; only differences matter, so the clocks at both ends may have any offset.
package struct DelayBaseline: Sendable {
    private static let window: Int64 = 30_000_000
    private var lowest: Int64 = .max
    private var lowestBefore: Int64 = .max
    private var windowStart: Int64?
    private var updated: Int64?
    private static let slew: Int64 = 1000
    package init() {}

    /// Returns how far `delay` is above the lowest; the longest there is if a remote clock's steps exceed what can be told.
    package mutating func rise(of delay: Int64, now: Int64) -> Int64 {
        if let start = windowStart {
            if now &- start > Self.window { (lowestBefore, lowest, windowStart) = (lowest, .max, now) }
        } else {
            windowStart = now
        }
        let slewed = min(max(0, now &- (updated ?? now)), Self.window) / Self.slew
        if slewed > 0 || updated == nil {
            // Feedback comes more often than its share of a µs would be counted.
            updated = now
            if lowest < .max - slewed { lowest += slewed }
            if lowestBefore < .max - slewed { lowestBefore += slewed }
        }
        lowest = min(lowest, delay)
        let (rise, isTooLong) = delay.subtractingReportingOverflow(min(lowest, lowestBefore))
        return isTooLong ? .max : rise
    }
}

/// Measures the queue of the path, by the lowest one-way delay of each feedback message above the path's lowest. Unlike
/// the slope of draft-ietf-rmcat-gcc-02 section 5.3, the length shows a queue that stands, needs no line through twenty
/// groups of packets at the start, and tells a queue of our own, which drains when we send less, from that of others.
package struct StandingQueue: Sendable {
    package enum Verdict: Sendable, Equatable {
        case short
        /// A queue stands or grows: send less.
        case stands
        /// A queue stood through all reductions. Others fill it, or the route has become longer: it is tolerated.
        case isForeign
    }
    /// Jitter and the packets of a frame behind each other are no queue.
    private static let jitter: Int64 = 20_000
    /// Within the jitter: what a packet takes at 640 kbit/s.
    private static let shortPacket: Int64 = 15_000
    private static let longestPacket: Int64 = 100_000
    /// A queue of this length is judged early; during the search, a shorter one is.
    private static let limit: Int64 = 40_000
    private static let firstLimit: Int64 = 30_000
    private static let confirmation: Int64 = 80_000
    /// The time from one judgement to the next, which sees the effect of the one before.
    private static let interval: Int64 = 300_000
    /// Time in which the tolerance for others' queues fades, µs.
    private static let memory = 20_000_000.0
    private var baseline = DelayBaseline()
    private var judged: (time: Int64, rise: Int64)?
    /// Consecutive judgements of a queue that does not become shorter.
    private var complaints = 0
    /// Delay of a queue that others fill, or of a longer route, µs.
    package private(set) var tolerance: Int64 = 0
    private var updated: Int64?
    /// Delay of the queue beyond jitter, µs.
    package private(set) var length: Int64 = 0
    package init() {}

    /// True if the queue has not drained for a while.
    package var stands: Bool { complaints > 0 }

    /// Times in µs.
    /// - Parameters:
    ///   - ownTime: what the packet itself takes on a path that is as narrow as the estimate. A packet of a narrow path is
    ///     late without a queue; if the path carries more than the estimate, the error fades with the growth that follows.
    ///   - isSearching: the rate grows fast, before the first queue.
    package mutating func update(
        oneWay: Int64, ownTime: Int64 = 0, roundTrip: Int64, isSearching: Bool = false, now: Int64
    ) -> Verdict {
        let own = min(max(0, ownTime - Self.shortPacket), Self.longestPacket)
        // A step of the remote clock may be as long as it likes.
        let whole = min(baseline.rise(of: oneWay, now: now), 60_000_000) - own
        if whole < Self.limit, let updated {
            tolerance -= Int64(Double(tolerance) * min(1, Double(now &- updated) / Self.memory))
        }
        updated = now
        let rise = whole &- tolerance
        length = max(0, rise &- Self.jitter)
        guard length > 0 else {
            (judged, complaints) = (nil, 0)
            return .short
        }
        guard let last = judged else {
            judged = (now, rise)
            return .short
        }
        let isLong = rise > (isSearching ? Self.firstLimit : Self.limit)
        let interval = complaints == 0 && isLong ? Self.confirmation : Self.interval + roundTrip
        guard now &- last.time >= interval else { return .short }
        judged = (now, rise)
        // If the queue drains, the last reduction suffices.
        guard rise >= last.rise &- 5_000 else { return .short }
        complaints += 1
        guard complaints > 3 else { return .stands }
        (judged, complaints, length, tolerance) = (nil, 0, 0, whole)
        return .isForeign
    }
}
