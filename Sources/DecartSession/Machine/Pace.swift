/// A token bucket: `burst` actions at once, and then one in each `interval`.
struct Pace: Sendable {
    let burst: Int
    let interval: Duration
    /// When the bucket is full again.
    private var full = Duration.zero

    init(burst: Int, interval: Duration) { (self.burst, self.interval) = (burst, interval) }

    /// The earliest time of the next action.
    var earliest: Duration { full - interval * (burst - 1) }

    mutating func count(now: Duration) { full = max(full, now) + interval }

    /// Returns nil, and counts the action, if it may happen now; otherwise the time that it has to wait.
    mutating func admit(now: Duration) -> Duration? {
        guard earliest <= now else { return earliest - now }
        count(now: now)
        return nil
    }
}
