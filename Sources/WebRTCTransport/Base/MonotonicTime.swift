/// Monotonic time, read without an allocation.
package enum MonotonicTime {
    /// Time since the first use in this process.
    package static var now: Duration { ContinuousClock.now - origin }
    private static let origin = ContinuousClock.now
}

extension Duration {
    /// In whole microseconds, for wire formats and the arithmetic of congestion control.
    var inMicroseconds: Int64 {
        let parts = components
        let (whole, overflows) = parts.seconds.multipliedReportingOverflow(by: 1_000_000)
        return overflows ? (parts.seconds < 0 ? .min : .max) : whole &+ parts.attoseconds / 1_000_000_000_000
    }
}

extension Duration {
    /// The earlier of two times, of which each may be missing.
    static func earlier(_ one: Duration?, _ other: Duration?) -> Duration? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }
}
