/// Limits the lines of a log whose number a peer decides: a burst, and then one in each interval. A value.
package struct LinePace: Sendable {
    package static let burst = 100
    package static let interval = Duration.milliseconds(50)
    /// When a whole burst may come again.
    private var full = Duration.zero
    private var leftOut = 0

    package init() {}

    /// Returns the number of lines that were left out before this one; nil: this one is left out too.
    package mutating func admit(now: Duration) -> Int? {
        guard full - Self.interval * (Self.burst - 1) <= now else {
            leftOut += 1
            return nil
        }
        full = max(full, now) + Self.interval
        defer { leftOut = 0 }
        return leftOut
    }
}
