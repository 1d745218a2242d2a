// The wait for a session of the account to end, because all that it may run at once are in use: "Concurrent session
// limit reached", close code 1013, HTTP 429. It is not counted as a retry, and has a pace of its own.

/// The pace of that wait, as a value.
struct LimitWait: Sendable {
    /// Least time between two dials. With the spread and the time to connect, a free session is used within 6 s.
    static let interval: Duration = .seconds(5)
    /// Added at random, so that clients that wait for the same account spread out.
    private static let spread: Duration = .milliseconds(400)
    private static let reportInterval: Duration = .seconds(60)

    struct Step: Sendable, Equatable {
        /// Time until the next dial.
        var delay: Duration
        /// The application is due to learn about the wait.
        var isReported: Bool
    }

    /// Longest wait; nil: for ever.
    let allowed: Duration?
    private var since: Duration?
    private var reportedAt: Duration?

    init(_ allowed: Duration?) { self.allowed = allowed }

    var isWaiting: Bool { since != nil }

    /// - Parameters:
    ///   - retryAfter: least wait that the service requests.
    ///   - dialledAt: start of the attempt that met the limit.
    /// - Returns: nil if no further dial fits into the longest wait.
    mutating func next(_ retryAfter: Duration?, dialledAt: Duration, now: Duration, jitter: Double) -> Step? {
        let since = since ?? now
        self.since = since
        let share = jitter.isFinite ? min(max(jitter, 0), 1) : 0
        let delay = max(dialledAt + Self.interval + Self.spread * share - now, retryAfter ?? .zero, .zero)
        if let allowed, now + delay > since + allowed { return nil }
        let isReported = reportedAt.map { now - $0 >= Self.reportInterval } ?? true
        if isReported { reportedAt = now }
        return Step(delay: delay, isReported: isReported)
    }

    /// Call when a connection is established, and at the start of a session.
    mutating func end() { (since, reportedAt) = (nil, nil) }
}
