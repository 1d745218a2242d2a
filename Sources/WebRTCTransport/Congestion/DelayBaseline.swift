/// The lowest delay of the last 30 to 60 s: the delay of the path without a queue. Old values expire, because routes
/// change and clocks drift. In µs; only differences matter, so the clocks at both ends may have any offset.
package struct DelayBaseline: Sendable {
    private static let window: Int64 = 30_000_000
    private var lowest: Int64 = .max
    private var lowestBefore: Int64 = .max
    private var windowStart: Int64?
    package init() {}

    /// Returns how far `delay` is above the lowest.
    package mutating func rise(of delay: Int64, now: Int64) -> Int64 {
        if let start = windowStart {
            if now &- start > Self.window { (lowestBefore, lowest, windowStart) = (lowest, .max, now) }
        } else {
            windowStart = now
        }
        lowest = min(lowest, delay)
        return delay &- min(lowest, lowestBefore)
    }
}

/// Detects a queue that neither grows nor drains. The trendline sees no slope in it, and drop-tail loss of a few per
/// cent is below the limit of section 6 of draft-ietf-rmcat-gcc-02. The lowest one-way delay of each half second is
/// compared with the path's lowest: a keyframe passes within that time, a standing queue does not.
package struct StandingQueue: Sendable {
    private static let interval: Int64 = 500_000
    private static let limit: Int64 = 100_000
    private var baseline = DelayBaseline()
    private var lowest: Int64 = .max
    private var intervalStart: Int64?
    /// Consecutive half seconds with a queue that does not become shorter.
    private var complaints = 0
    private var lastRise: Int64 = 0
    /// Estimated delay of the queue, µs; 0 below the limit.
    package private(set) var length: Int64 = 0
    package init() {}

    /// Returns true if a standing queue was found, at most once in half a second. Times in µs.
    package mutating func update(oneWay: Int64, now: Int64) -> Bool {
        let start = intervalStart ?? now
        intervalStart = start
        lowest = min(lowest, oneWay)
        let rise = baseline.rise(of: lowest, now: now)
        // A shorter queue is known before the half second is over.
        length = rise > Self.limit ? min(length, rise) : 0
        guard now &- start >= Self.interval else { return false }
        (intervalStart, lowest) = (now, .max)
        defer { lastRise = rise }
        guard rise > Self.limit else {
            complaints = 0
            return false
        }
        length = rise
        // If the queue drains, the last reduction suffices. If it stays after all reductions, the route has become
        // longer: start again with a new baseline.
        if complaints > 0, rise < lastRise &- 5_000 {
            complaints = 1
            return false
        }
        complaints += 1
        if complaints > 6 {
            self = StandingQueue()
            return false
        }
        return complaints % 2 == 1
    }
}
