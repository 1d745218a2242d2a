/// Counts received messages that the owner has not handled yet. Above either limit the channel stops reading until both
/// counts are down to half.
struct Backlog {
    static let maximumMessages = 256
    static let maximumBytes = 4 << 20

    private var messages = 0
    private var bytes = 0
    private(set) var isFull = false

    /// - Returns: true if `isFull` has changed.
    mutating func add(_ size: Int) -> Bool {
        messages += 1
        bytes += size
        guard !isFull, messages > Self.maximumMessages || bytes > Self.maximumBytes else { return false }
        isFull = true
        return true
    }

    /// - Returns: true if `isFull` has changed.
    mutating func remove(_ size: Int) -> Bool {
        messages = max(0, messages - 1)
        bytes = max(0, bytes - size)
        guard isFull, messages <= Self.maximumMessages / 2, bytes <= Self.maximumBytes / 2 else { return false }
        isFull = false
        return true
    }
}
