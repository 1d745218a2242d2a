/// How often and how patiently a lost or failed connection is tried again.
package struct RetryPolicy: Sendable, Equatable {
    /// Attempts after the first one; nil: for ever; 0: the first failure is final.
    package var maximumRetries: Int?
    /// The longest wait.
    package var maximumDelay: Duration

    package init(maximumRetries: Int? = 5, maximumDelay: Duration = .seconds(10)) {
        self.maximumRetries = maximumRetries
        self.maximumDelay = maximumDelay
    }
}

/// The waits before each retry, without end:
///
/// | retry | 0 | 1 | 2 | 3 | 4 … |
/// |---|---|---|---|---|---|
/// | wait, s | 1 | 2 | 4 | 8 | 10 |
///
/// Jitter shortens a wait by up to a fifth and never lengthens it, so that the table is an upper bound while many
/// clients of a restarted server still spread out. A service that asks for a longer one (Retry-After) gets it, up to 60 s.
package struct BackOff: Sendable, Equatable {
    private static let waits: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(8)]

    private let maximumDelay: Duration
    /// Retries begun since the last stable connection.
    package private(set) var count = 0

    package init(maximumDelay: Duration) {
        self.maximumDelay = max(maximumDelay, .zero)
    }

    /// - Parameter jitter: 0…1, chosen at random by the caller.
    package mutating func next(jitter: Double) -> Duration {
        let wait = BackOff.waits.indices.contains(count) ? BackOff.waits[count] : .seconds(10)
        count = min(count &+ 1, Int(Int32.max))
        let share = jitter.isFinite ? min(max(jitter, 0), 1) : 0
        return min(wait, maximumDelay) * (1 - 0.2 * share)
    }

    package mutating func reset() {
        count = 0
    }
}
