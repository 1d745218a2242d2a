/// Limits the messages of a peer, each of which costs the session's queue some work, as does each of its bytes: a value.
package struct MessageRate: Sendable {
    package static let most = 2_000
    /// A service sends no images, and a description has some KiB.
    package static let mostBytes = 32 << 20
    package static let window = Duration.seconds(10)

    private var windowBegan: Duration?
    private var messages = 0
    private var bytes = 0

    package init() {}

    /// - Parameter now: monotonic time since an arbitrary origin.
    /// - Returns: false if the peer has sent more than `most` messages, or `mostBytes`, since the present window began.
    package mutating func allows(_ size: Int, at now: Duration) -> Bool {
        if windowBegan.map({ now - $0 >= Self.window }) ?? true { (windowBegan, messages, bytes) = (now, 0, 0) }
        messages += 1
        bytes += size
        return messages <= Self.most && bytes <= Self.mostBytes
    }
}
