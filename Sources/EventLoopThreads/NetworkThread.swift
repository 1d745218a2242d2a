// The threads that own sockets: those of ICE, of DTLS and of signalling, and their timers. They know GLib's main context and
// nothing of the work that runs on them.
private import CGIO
private import Dispatch
private import Glibc
private import Synchronization

/// A network thread. It runs a `GMainContext` for ICE, and serves sockets, timers and work.
///
/// It starts on first use and never stops: stopping would require proof that no late libnice callback still needs it,
/// and an idle thread in `poll` costs nothing. Without a descriptor or a thread left in the process, it does not start;
/// work waits until a later `start` succeeds. A child of `fork` has none of its parent's threads, and their locks may be
/// held for ever; there nothing starts.
package final class NetworkThread: Sendable {
    /// The first of `NetworkThreads`, for work that belongs to no connection.
    package static let shared = NetworkThread(name: "decart-net")

    /// The process in which threads have started; 0: none has.
    private static let process = Atomic<pid_t>(0)

    /// True in a child that was forked after threads had started.
    package static var areLost: Bool {
        let process = process.load(ordering: .relaxed)
        return process != 0 && process != getpid()
    }

    /// All threads that have started; none ends before the process does.
    private static let started = Mutex<[NetworkThread]>([])

    /// Stops all threads for good, because the process exits and what they use will be freed. Waits until each has ended
    /// what it does, but no longer than `limit`.
    package static func haltAll(within limit: Duration) {
        let halted = DispatchSemaphore(value: 0)
        let others = started.withLock { $0 }.filter { !$0.isCurrent }
        for thread in others {
            thread.async {
                halted.signal()
                while true { pause() }
            }
        }
        let end = DispatchTime.now() + .nanoseconds(Int(limit / .nanoseconds(1)))
        for _ in others { _ = halted.wait(timeout: end) }
    }

    /// A `GMainContext`; nil if the thread has not started.
    package var context: OpaquePointer? { loop.context }
    private let name: String
    private let loop = NetworkLoop()
    private let hasStarted = Mutex(false)

    /// Creates another thread, for `NetworkThreads` and tests.
    package init(name: String) {
        self.name = name
        start()
    }

    /// Starts the thread, unless it has started.
    /// - Returns: false: the process has no descriptor or thread left, or `areLost`.
    @discardableResult
    package func start() -> Bool {
        guard !Self.areLost else { return false }
        return hasStarted.withLock { hasStarted in
            if !hasStarted { hasStarted = startOnce() }
            return hasStarted
        }
    }

    private func startOnce() -> Bool {
        if loop.context == nil {
            // For this context, and for the process's default one, which comes with the first `push_thread_default`.
            guard ProcessLimits.hasDescriptors(2), let context = g_main_context_new() else { return false }
            g_main_context_default()
            loop.set(context: context)
        }
        // The thread keeps this object for the life of the process.
        let thread = Unmanaged.passRetained(self)
        let isStarted = startThread(thread.toOpaque()) { raw in
            guard let raw else { return nil }
            let thread = Unmanaged<NetworkThread>.fromOpaque(raw).takeUnretainedValue()
            setThreadName(thread.name)
            thread.loop.run()
            return nil
        }
        if isStarted {
            Self.process.store(getpid(), ordering: .relaxed)
            Self.started.withLock { $0.append(self) }
        } else {
            thread.release()
        }
        return isStarted
    }

    package var isCurrent: Bool { loop.isCurrent }

    /// Call it in front of what may attach a source to `context`. Any thread: GLib wakes the loop where another one does it.
    package func sourcesMayChange() { if isCurrent { loop.sourcesMayChange() } }

    /// GLib's monotonic time, µs.
    package static var now: Int { NetworkLoop.now }

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

    /// Runs `work` on the thread and waits for it, but no longer than `limit`: nil then, and `work` runs later.
    package func sync<T: Sendable>(within limit: Duration, _ work: @escaping @Sendable () -> T) -> T? {
        if isCurrent { return work() }
        let answer = Answer<T, Never>()
        async { answer.store(.success(work())) }
        return answer.wait(within: limit)
    }

    /// Runs `work` on the thread after `delay` on the monotonic clock, up to a millisecond late: the thread polls in whole
    /// milliseconds. Releasing the returned timer does not cancel it.
    @discardableResult
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> NetworkTimer {
        loop.schedule(after: delay, work)
    }

    /// Runs `work` on the thread, whose caller is there: what it captures stays there. Work that is queued comes first.
    package func later(_ work: @escaping () -> Void) {
        preconditionOnThread()
        let work = OnThread(value: work)
        async { work.value() }
    }

    /// Runs `work` on the thread after `delay`. Call it there: what it captures stays there.
    @discardableResult
    package func later(after delay: Duration, _ work: @escaping () -> Void) -> NetworkTimer {
        preconditionOnThread()
        let work = OnThread(value: work)
        return schedule(after: delay) { work.value() }
    }

    // @unchecked: made and used on one network thread.
    private struct OnThread: @unchecked Sendable {
        let value: () -> Void
    }

    /// Adds a socket of the caller's own, or changes what it awaits. Call on the thread.
    /// - Returns: 0, or the system's error: no descriptor is left.
    package func watch(
        _ descriptor: CInt, for interest: SocketReadiness, _ handler: @escaping (SocketReadiness) -> Void
    ) -> CInt {
        preconditionOnThread()
        return loop.watch(descriptor, for: interest, handler)
    }

    /// Call on the thread, before the descriptor is closed. The handler is not called any more.
    package func unwatch(_ descriptor: CInt) {
        preconditionOnThread()
        loop.unwatch(descriptor)
    }

    /// Calls `read` when the descriptor is readable, before libnice does, which polls it too; nil: no longer. `read`
    /// returns false if libnice must read next.
    package func setReader(_ descriptor: CInt, _ read: (() -> Bool)?) {
        preconditionOnThread()
        loop.setReader(descriptor, read)
    }

    /// Call on the thread after descriptors that it polls have been closed.
    package func descriptorsChange() {
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

        func wait(within limit: Duration) -> T? {
            _ = stored.wait(timeout: .now() + .nanoseconds(Int(limit / .nanoseconds(1))))
            return result.withLock { try? $0?.get() }
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
