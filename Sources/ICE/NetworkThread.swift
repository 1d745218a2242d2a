// The threads that own ICE, DTLS and their timers. They know GLib's main context and nothing of the work that runs on
// them.
private import CNice
private import Dispatch
private import Synchronization

/// A network thread. It runs a `GMainContext` for ICE, DTLS timers and datagrams.
///
/// It starts on first use and never stops: stopping would require proof that no late libnice callback still needs it,
/// and an idle thread in `poll` costs nothing.
package final class NetworkThread: Sendable {
    /// The first of `NetworkThreads`, for work that belongs to no connection.
    package static let shared = NetworkThread(name: "decart-net")

    /// Never released, because the thread never ends.
    // nonisolated(unsafe): GLib locks the context internally, so any thread may attach sources and query its owner.
    nonisolated(unsafe) let context: OpaquePointer?
    private let loop: NetworkLoop

    /// Creates another thread, for `NetworkThreads` and tests.
    package init(name: String) {
        context = g_main_context_new()
        loop = NetworkLoop(context: context)
        // The thread keeps its loop for the life of the process.
        let thread = g_thread_new(
            name,
            { raw in
                if let raw { Unmanaged<NetworkLoop>.fromOpaque(raw).takeUnretainedValue().run() }
                return nil
            }, Unmanaged.passRetained(loop).toOpaque())
        g_thread_unref(thread)
    }

    package var isCurrent: Bool { g_main_context_is_owner(context) != 0 }

    /// Checks that code which belongs to this thread runs on it. Only a bug in this plugin can violate that, never a
    /// peer's input.
    package func preconditionOnThread() {
        assert(isCurrent, "belongs to the network thread")
    }

    /// Queues `work` to run on the thread, in FIFO order. Can be called from any thread.
    package func async(_ work: @escaping @Sendable () -> Void) { loop.queue(work) }

    /// Runs `work` on the thread and waits for it; runs it inline if already there. The caller must not hold a lock
    /// that the network thread may need.
    package func sync<T: Sendable, Failure: Error>(
        _ work: @escaping @Sendable () throws(Failure) -> T
    ) throws(Failure) -> T {
        if isCurrent { return try work() }
        // The network thread may hold the closure a little longer than this call, so the closure escapes.
        let answer = Answer<T, Failure>()
        async {
            do throws(Failure) {
                answer.store(.success(try work()))
            } catch {
                answer.store(.failure(error))
            }
        }
        return try answer.wait().get()
    }

    /// Runs `work` on the thread after `delay` on the monotonic clock, up to a millisecond late: the thread polls in whole
    /// milliseconds. Releasing the returned timer does not cancel it.
    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> NetworkTimer {
        loop.schedule(after: delay, work)
    }

    /// Calls `read` when the descriptor is readable, before libnice does, which polls it too; nil: no longer. `read`
    /// returns false if libnice must read next.
    func setReader(_ descriptor: CInt, _ read: (() -> Bool)?) {
        preconditionOnThread()
        loop.setReader(descriptor, read)
    }

    /// Call on the thread after descriptors that it polls have been closed.
    func descriptorsChange() {
        preconditionOnThread()
        loop.descriptorsChange()
    }

    private final class Answer<T: Sendable, Failure: Error>: Sendable {
        private let result = Mutex<Result<T, Failure>?>(nil)
        private let stored = DispatchSemaphore(value: 0)

        func store(_ value: Result<T, Failure>) {
            result.withLock { $0 = value }
            stored.signal()
        }

        func wait() -> Result<T, Failure> {
            while true {
                stored.wait()
                // Always set here: the semaphore is signalled after the result is stored.
                if let value = result.withLock({ $0 }) { return value }
            }
        }
    }
}
