/// Virtual time with the timers that a machine names, for the tests of machines.
package struct VirtualTimers<Timer: Hashable & Sendable>: Sendable {
    package private(set) var now = Duration.zero
    private var times: [Timer: Duration] = [:]
    /// Timers that have fired in the present wait.
    private var fired = 0
    /// The longest wait of a test, 100,000 s, takes 200,000 samples of a session's media.
    private static var limit: Int { 500_000 }

    package init() {}

    package var isEmpty: Bool { times.isEmpty }
    package var running: Set<Timer> { Set(times.keys) }
    /// When the timer fires; nil: it does not run.
    package subscript(timer: Timer) -> Duration? { times[timer] }

    package mutating func schedule(_ timer: Timer, after delay: Duration) { times[timer] = now + delay }

    package mutating func cancel(_ timer: Timer) { times[timer] = nil }

    /// Advances the time to that of the next timer, which fires; without one until `end`, to `end`.
    package mutating func next(until end: Duration) -> Timer? {
        guard let (timer, due) = times.min(by: { $0.value < $1.value }), due <= end else {
            (now, fired) = (max(now, end), 0)
            return nil
        }
        fired += 1
        precondition(fired <= Self.limit, "Timers do not come to rest; the last one was \(timer)")
        now = max(now, due)
        times[timer] = nil
        return timer
    }

    /// Advances the time as if the process were suspended: timers fire late.
    package mutating func sleep(_ duration: Duration) { now += duration }
}
