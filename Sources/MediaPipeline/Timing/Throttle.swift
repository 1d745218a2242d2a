/// Allows something once in an interval. A value; times are monotonic.
package struct Throttle: Sendable {
    private let interval: Duration
    private var last: Duration?

    package init(_ interval: Duration) { self.interval = interval }

    /// - Returns: true if the interval since it last returned true is over.
    package mutating func allows(at now: Duration) -> Bool {
        if let last, now >= last, now - last < interval { return false }
        last = now
        return true
    }
}
