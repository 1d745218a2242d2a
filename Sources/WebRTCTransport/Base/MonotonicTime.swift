import GStreamerKit

/// Monotonic time, read without an allocation.
package enum MonotonicTime {
    /// Time since the first use in this process.
    package static var now: Duration { ContinuousClock.now - origin }
    static var nanoseconds: UInt64 {
        let now = ContinuousClock.now
        return UInt64(clamping: Int64((now - origin).clockTime)) &+ 1
    }
    private static let origin = ContinuousClock.now
}
