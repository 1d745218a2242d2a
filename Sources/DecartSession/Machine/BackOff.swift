// The waits before the next attempt: after a failure, and while the account's limit is reached.
import Recovery

/// Retry policy for lost and failed connections.
package struct RetryPolicy: Sendable, Equatable {
    /// Attempts after the first one; nil: unlimited; 0: the first failure is final.
    package var maximumRetries: Int?
    /// Upper bound of each wait, unless the service requests a longer one.
    package var maximumDelay: Duration

    package init(maximumRetries: Int? = 5, maximumDelay: Duration = RecoveryPlan.Session.longestRetryDelay) {
        self.maximumRetries = maximumRetries
        self.maximumDelay = maximumDelay
    }
}

/// Infinite sequence of the waits before each retry:
///
/// | retry | 0 | 1 | 2 | 3 | 4 | … |
/// |---|---|---|---|---|---|---|
/// | wait, s | 1 | 2 | 4 | 8 | 16 | twice the one before, up to `maximumDelay` |
///
/// Jitter shortens a wait by up to a fifth and never lengthens it, so that the table is an upper bound while many
/// clients of a restarted server still spread out. `SessionMachine` waits longer if the service requests it
/// (Retry-After), up to 60 s.
package struct BackOff: Sendable, Equatable {
    private let maximumDelay: Duration
    /// Retries started since the last stable connection.
    package private(set) var count = 0
    /// Waits that a change of the network has ended since then.
    private var endedWaits = 0
    private static let maximumEndedWaits = 5

    package init(maximumDelay: Duration) {
        self.maximumDelay = max(maximumDelay, .zero)
    }

    /// - Parameter jitter: 0…1, a random number from the caller.
    package mutating func next(jitter: Double) -> Duration {
        // The property's maximum is below 2^12 s.
        let wait = RecoveryPlan.Session.firstRetryDelay * (1 << min(count, 12))
        count = min(count &+ 1, Int(Int32.max))
        let share = jitter.isFinite ? min(max(jitter, 0), 1) : 0
        return min(wait, maximumDelay) * (1 - 0.2 * share)
    }

    /// Returns false if changes of the network have ended too many waits.
    mutating func endWait() -> Bool {
        guard endedWaits < Self.maximumEndedWaits else { return false }
        endedWaits += 1
        return true
    }

    /// Call at the start, and after a connection of 30 s or the first frame of a live view.
    package mutating func reset() { (count, endedWaits) = (0, 0) }
}

/// The pace of dials while no session is free: all that the account may run at once are in use ("Concurrent session limit
/// reached", close code 1013, HTTP 429), or the service has no capacity (`capacity`). The wait for a free one is not
/// counted as a retry.
struct LimitWait: Sendable {
    /// Least time between two dials. With the spread and the time to connect, a free session is used within 6 s.
    static let interval: Duration = .seconds(5)
    /// Added at random, so that clients that wait for the same account spread out.
    private static let spread: Duration = .milliseconds(400)
    static let reportInterval: Duration = .seconds(60)

    /// Longest wait; nil: for ever.
    let allowed: Duration?
    private var since: Duration?

    init(_ allowed: Duration?) { self.allowed = allowed }

    var isWaiting: Bool { since != nil }

    /// - Parameters:
    ///   - requested: least wait that the service requests.
    ///   - dialledAt: start of the attempt that met the limit.
    /// - Returns: time until the next dial; nil if none fits into the longest wait.
    mutating func next(_ requested: Duration, dialledAt: Duration, now: Duration, jitter: Double) -> Duration? {
        let since = since ?? now
        self.since = since
        let share = jitter.isFinite ? min(max(jitter, 0), 1) : 0
        let delay = max(dialledAt + Self.interval + Self.spread * share - now, requested, .zero)
        return allowed.map { now + delay > since + $0 } == true ? nil : delay
    }

    /// Call when a connection is established, and at the start of a session.
    mutating func end() { since = nil }
}
