/// Monotonic time, read without an allocation.
package enum MonotonicTime {
    /// Time since the first use in this process.
    package static var now: Duration { ContinuousClock.now - origin }
    private static let origin = ContinuousClock.now
}
