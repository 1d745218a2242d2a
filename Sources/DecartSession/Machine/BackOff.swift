/// Retry policy for lost and failed connections.
package struct RetryPolicy: Sendable, Equatable {
    /// Attempts after the first one; nil: unlimited; 0: the first failure is final.
    package var maximumRetries: Int?
    /// Upper bound of each wait, unless the service requests a longer one.
    package var maximumDelay: Duration

    package init(maximumRetries: Int? = 5, maximumDelay: Duration = .seconds(10)) {
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

    package init(maximumDelay: Duration) {
        self.maximumDelay = max(maximumDelay, .zero)
    }

    /// - Parameter jitter: 0…1, a random number from the caller.
    package mutating func next(jitter: Double) -> Duration {
        // The property's maximum is below 2^12 s.
        let wait = Duration.seconds(1 << min(count, 12))
        count = min(count &+ 1, Int(Int32.max))
        let share = jitter.isFinite ? min(max(jitter, 0), 1) : 0
        return min(wait, maximumDelay) * (1 - 0.2 * share)
    }

    package mutating func reset() {
        count = 0
    }
}
