// The one thread that owns ICE, DTLS and their timers. It knows GLib's main loop and nothing of what runs on it.
private import CNice
private import Dispatch
private import Synchronization

/// The one network thread of the process: it owns a `GMainContext`; ICE, DTLS timers and datagrams live on it.
///
/// Started on first use, never stopped: stopping it would mean proving that no late callback of libnice can still want
/// it, and an idle thread in `poll` costs nothing.
package final class NetworkThread: Sendable {
    package static let shared = NetworkThread(name: "decart-net")

    /// Owned for ever: the thread never ends.
    let context: MainContext
    private let pending = Mutex<[@Sendable () -> Void]>([])

    /// Tests make more of them; the process has one, `shared`.
    package init(name: String) {
        context = MainContext(pointer: g_main_context_new())
        // The thread keeps the context for the life of the process; nothing is handed back.
        let raw = UnsafeMutableRawPointer(context.pointer)
        let thread = g_thread_new(
            name,
            { raw in
                let context = raw.map { OpaquePointer($0) }
                g_main_context_push_thread_default(context)
                let loop = g_main_loop_new(context, 0)
                g_main_loop_run(loop)
                return nil
            }, raw)
        g_thread_unref(thread)
    }

    /// Whether the caller runs on this thread.
    package var isCurrent: Bool { g_main_context_is_owner(context.pointer) != 0 }

    /// A door of code that belongs to this thread. A wrong caller is a mistake in our own code, never in what a peer sent.
    package func preconditionOnThread() {
        assert(isCurrent, "belongs to the network thread")
    }

    /// Runs `work` on the thread, later. First in, first out, from any thread.
    package func async(_ work: @escaping @Sendable () -> Void) {
        let wasEmpty = pending.withLock { queue in
            queue.append(work)
            return queue.count == 1
        }
        guard wasEmpty else { return }
        let source = g_idle_source_new()
        // Socket sources have this priority too: neither work nor datagrams starve the other.
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

    /// Runs `work` on the thread and waits for it; inline if already there. Not from a thread that holds a lock which
    /// the network thread may want.
    package func sync<T: Sendable, Failure: Error>(
        _ work: @escaping @Sendable () throws(Failure) -> T
    ) throws(Failure) -> T {
        if isCurrent { return try work() }
        // The network thread may still hold the closure when this returns, so it escapes.
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

    /// Runs `work` on the thread once `delay` has passed (rounded up to whole milliseconds, monotonic clock).
    /// Dropping the returned timer does not cancel it.
    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> NetworkTimer {
        NetworkTimer(context: context, milliseconds: delay.wholeMilliseconds, work: work)
    }

    /// Empties what was queued when it began: work that queues more work lets sockets have their turn.
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
                // Never empty: the semaphore is signalled after the answer is stored.
                if let value = result.withLock({ $0 }) { return value }
            }
        }
    }
}

/// A `GMainContext` for handing about.
// GMainContext is locked inside by GLib: attaching sources and asking for its owner are allowed from any thread.
struct MainContext: @unchecked Sendable {
    let pointer: OpaquePointer?
}

extension Duration {
    /// Rounded up, clamped to what GLib's timers take.
    var wholeMilliseconds: UInt32 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 4_000_000 else { return 4_000_000_000 }
        let fraction = (attoseconds &+ 999_999_999_999_999) / 1_000_000_000_000_000
        return UInt32(clamping: seconds &* 1_000 &+ fraction)
    }
}
