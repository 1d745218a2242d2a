/// Runs a session's work, one item at a time and in order, and provides its clock.
package protocol SessionScheduler: Sendable {
    /// Monotonic time since an arbitrary origin.
    var now: Duration { get }
    func async(_ work: @escaping @Sendable () -> Void)
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void)
}
