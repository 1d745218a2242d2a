/// Limits the messages of a peer, each of which costs the session's queue some work: a value.
package struct MessageRate: Sendable {
    package static let most = 2_000
    package static let window = Duration.seconds(10)

    private var windowBegan: Duration?
    private var messages = 0

    package init() {}

    /// - Parameter now: monotonic time since an arbitrary origin.
    /// - Returns: false if the peer has sent more than `most` messages since the present window began.
    package mutating func allows(at now: Duration) -> Bool {
        if let windowBegan, now - windowBegan < Self.window {
            messages += 1
        } else {
            (windowBegan, messages) = (now, 1)
        }
        return messages <= Self.most
    }
}
