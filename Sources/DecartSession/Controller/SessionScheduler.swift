package import Dispatch

/// Runs a session's work, one item at a time and in order, and provides its clock.
package protocol SessionScheduler: Sendable {
    /// Monotonic time since an arbitrary origin.
    var now: Duration { get }
    func async(_ work: @escaping @Sendable () -> Void)
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void)
}

/// A serial queue and the system's monotonic clock.
package struct DispatchScheduler: SessionScheduler {
    private let queue: DispatchQueue
    private let origin = DispatchTime.now()

    /// - Parameter queue: serial and used by nothing else, because the session may block on it.
    package init(queue: DispatchQueue) {
        self.queue = queue
    }

    // Dispatch's uptime clock does not jump with the wall clock.
    package var now: Duration {
        .nanoseconds(Int64(clamping: DispatchTime.now().uptimeNanoseconds &- origin.uptimeNanoseconds))
    }

    package func async(_ work: @escaping @Sendable () -> Void) {
        queue.async(execute: work)
    }

    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        let (seconds, attoseconds) = delay.components
        let clamped = min(max(seconds, 0), 1_000_000)
        let nanoseconds = Int(clamped) * 1_000_000_000 + Int(max(attoseconds, 0) / 1_000_000_000)
        queue.asyncAfter(deadline: .now() + .nanoseconds(nanoseconds), execute: work)
    }
}
