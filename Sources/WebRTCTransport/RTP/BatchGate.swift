internal import Synchronization

/// Holds a jitter buffer's streaming thread behind its first packet while further packets that arrived together are
/// pushed. Without it, that thread wakes for each packet, and both threads wait for each other at the jitter buffer's lock.
final class BatchGate: Sendable {
    private let mutex = Mutex(())

    /// Closes the gate during `push`, which must not wait for a streaming thread.
    func hold(_ push: () -> Void) { mutex.withLock { _ in push() } }

    func pass() { mutex.withLock { _ in } }
}
