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
    let context: MainContext
    private let pending = Mutex<[@Sendable () -> Void]>([])
    private let loop: NetworkLoop

    /// Creates another thread, for `NetworkThreads` and tests.
    package init(name: String) {
        context = MainContext(pointer: g_main_context_new())
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

    /// True if the caller runs on this thread.
    package var isCurrent: Bool { g_main_context_is_owner(context.pointer) != 0 }

    /// Checks that code which belongs to this thread runs on it. Only a bug in this plugin can violate that, never a
    /// peer's input.
    package func preconditionOnThread() {
        assert(isCurrent, "belongs to the network thread")
    }

    /// Queues `work` to run on the thread, in FIFO order. Can be called from any thread.
    package func async(_ work: @escaping @Sendable () -> Void) {
        let wasEmpty = pending.withLock { queue in
            queue.append(work)
            return queue.count == 1
        }
        guard wasEmpty else { return }
        loop.sourcesChange()
        let source = g_idle_source_new()
        // Sockets have the same priority, so neither work nor datagrams starve the other.
        g_source_set_priority(source, G_PRIORITY_DEFAULT)
        g_source_set_callback(
            source,
            { data in
                guard let data else { return 0 }
                Unmanaged<NetworkThread>.fromOpaque(data).takeUnretainedValue().drain()
                return 0
            }, Unmanaged.passRetained(self).toOpaque(),
            { data in
                guard let data else { return }
                Unmanaged<NetworkThread>.fromOpaque(data).release()
            })
        g_source_attach(source, context.pointer)
        g_source_unref(source)
    }

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

    /// Runs `work` on the thread after `delay`, rounded up to whole milliseconds of the monotonic clock. Releasing the
    /// returned timer does not cancel it.
    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> NetworkTimer {
        loop.sourcesChange()
        return NetworkTimer(context: context, milliseconds: delay.wholeMilliseconds, work: work)
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

    /// Runs the work that is queued now. Work queued meanwhile waits for the next iteration, so that sockets are served
    /// in between.
    private func drain() {
        let batch = pending.withLock { queue in
            let batch = queue
            queue = []
            return batch
        }
        for work in batch { work() }
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

/// A `GMainContext` pointer that can cross threads.
// @unchecked: GLib locks the context internally, so any thread may attach sources and query its owner.
struct MainContext: @unchecked Sendable {
    let pointer: OpaquePointer?
}

extension Duration {
    /// The duration in milliseconds, rounded up and clamped to the range of GLib's timers.
    var wholeMilliseconds: UInt32 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 4_000_000 else { return 4_000_000_000 }
        let fraction = (attoseconds &+ 999_999_999_999_999) / 1_000_000_000_000_000
        return UInt32(clamping: seconds &* 1_000 &+ fraction)
    }
}
