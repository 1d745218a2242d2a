// The loop of a network thread: that of GLib, which serves libnice, with a short cut for media, own sockets, timers and work.
// GLib visits all its sources at each wake-up, and it wakes itself twice for each source that it dispatches.
private import CGIO
private import Glibc
private import Synchronization

// @unchecked: constant, locked, or used on the loop's own thread only.
final class NetworkLoop: @unchecked Sendable {
    /// A `GMainContext`; nil until the loop's thread has started. Never released, because the thread never ends.
    private let storedContext = Atomic<UnsafeMutableRawPointer?>(nil)
    /// The thread that runs the loop; 0: none yet.
    private let owner = Atomic<pthread_t>(0)
    private let pending = Mutex<[@Sendable () -> Void]>([])
    private let timers = NetworkTimers()
    /// Limits the time after media or timers until GLib looks at its sources, should one of them have changed unannounced, µs.
    private static let longestShortCut: Int = 50_000

    // MARK: The loop's own thread
    private var readers: [CInt: () -> Bool] = [:]
    private var descriptors = [GPollFD](repeating: GPollFD(), count: 64)
    private var poller = DescriptorPoller()
    private var sockets = SocketPoller()
    /// GLib has to look at its sources: it does not wake the thread that attaches one.
    private var mustDispatch = false

    var context: OpaquePointer? { storedContext.load(ordering: .acquiring).map { OpaquePointer($0) } }

    /// Call it once, before the thread starts.
    func set(context: OpaquePointer) { storedContext.store(UnsafeMutableRawPointer(context), ordering: .releasing) }

    /// The monotonic time, µs.
    static var now: Int { Int(g_get_monotonic_time()) }

    var isCurrent: Bool { owner.load(ordering: .relaxed) == pthread_self() }

    private func wakeUp() {
        // GLib would take nil for the host's default context.
        if let context, !isCurrent { g_main_context_wakeup(context) }
    }

    /// Any thread. Work runs in the order in which it was queued.
    func queue(_ work: @escaping @Sendable () -> Void) {
        let isFirst = pending.withLock { queue in
            queue.append(work)
            return queue.count == 1
        }
        if isFirst { wakeUp() }
    }

    /// Any thread.
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> NetworkTimer {
        let (timer, isFirst) = timers.add(after: delay, now: Self.now, work)
        if isFirst { wakeUp() }
        return timer
    }

    func setReader(_ descriptor: CInt, _ read: (() -> Bool)?) { readers[descriptor] = read }

    /// Call it on the loop's own thread in front of what may attach a source.
    func sourcesMayChange() { mustDispatch = true }

    /// Call after a descriptor is closed, because the next one may have its number.
    func descriptorsChange() { poller.forget() }

    /// Adds a socket of this process's own, or changes what it awaits. Returns 0, or the system's error.
    func watch(
        _ descriptor: CInt, for interest: SocketReadiness, _ handler: @escaping (SocketReadiness) -> Void
    ) -> CInt { sockets.watch(descriptor, for: interest, handler) }

    /// Call it before the descriptor is closed.
    func unwatch(_ descriptor: CInt) { sockets.remove(descriptor) }

    func run() {
        guard let context else { return }
        owner.store(pthread_self(), ordering: .relaxed)
        g_main_context_acquire(context)
        g_main_context_push_thread_default(context)
        while true { iterate(context) }
    }

    private func iterate(_ context: OpaquePointer) {
        var (priority, timeout): (gint, gint) = (0, -1)
        g_main_context_prepare(context, &priority)
        let count = query(context, &timeout)
        // The own sockets' instance comes last, where GLib does not see it.
        let hasSockets = sockets.instance >= 0
        if hasSockets {
            descriptors[count] = GPollFD(fd: sockets.instance, events: gushort(G_IO_IN.rawValue), revents: 0)
        }
        descriptors.withUnsafeMutableBufferPointer { all in
            guard let base = all.baseAddress else { return }
            serve(UnsafeMutableBufferPointer(start: base, count: hasSockets ? count + 1 : count), timeout)
            g_main_context_check(context, priority, base, gint(count))
        }
        g_main_context_dispatch(context)
    }

    /// Leaves room for one more.
    private func query(_ context: OpaquePointer, _ timeout: inout gint) -> Int {
        while true {
            let wanted = descriptors.withUnsafeMutableBufferPointer {
                Int(g_main_context_query(context, gint.max, &timeout, $0.baseAddress, gint($0.count - 1)))
            }
            guard wanted >= descriptors.count else { return wanted }
            descriptors = [GPollFD](repeating: GPollFD(), count: 2 * wanted)
        }
    }

    /// Polls, and serves media, timers and work, until GLib has something to do, or may have.
    private func serve(_ polled: UnsafeMutableBufferPointer<GPollFD>, _ timeout: gint) {
        poller.watch(polled)
        var now = Self.now
        var end = timeout < 0 ? Int.max : now + Int(timeout) * 1000
        var hasRun = false
        mustDispatch = false
        repeat {
            let due = hasWork ? now : min(end, timers.nextDue ?? end)
            let isReady = poller.wait(polled, Self.milliseconds(until: due, now)) > 0
            let isDone = !isReady || readMedia(polled)
            now = Self.now
            let hasFired = timers.fire(now: now)
            // Work that was queued is most often about libnice's sources.
            if runWork() || !isDone || mustDispatch { return }
            if !hasRun, isReady || hasFired {
                hasRun = true
                end = min(end, now + Self.longestShortCut)
            }
        } while now < end
    }

    /// The timeout of a poll, rounded up; -1: none.
    private static func milliseconds(until due: Int, _ now: Int) -> gint {
        due == .max ? -1 : gint(clamping: max(0, due - now + 999) / 1000)
    }

    /// Returns true if nothing is left for GLib.
    private func readMedia(_ polled: UnsafeMutableBufferPointer<GPollFD>) -> Bool {
        let readable = gushort(G_IO_IN.rawValue)
        var isDone = true
        for index in polled.indices where polled[index].revents != 0 {
            if polled[index].fd == sockets.instance {
                serveSockets()
                polled[index].revents = 0
            } else if polled[index].revents & readable != 0, let read = readers[polled[index].fd], read() {
                polled[index].revents &= ~readable
            }
            isDone = isDone && polled[index].revents == 0
        }
        return isDone
    }

    private func serveSockets() {
        for (key, readiness) in sockets.collect() { sockets.handler(key)?(readiness) }
    }

    private var hasWork: Bool { pending.withLock { !$0.isEmpty } }

    /// Runs the work that is queued now. Work queued meanwhile waits until sockets have been served. Returns false if there
    /// was none.
    private func runWork() -> Bool {
        let batch = pending.withLock { queue in
            defer { queue = [] }
            return queue
        }
        for work in batch { work() }
        return !batch.isEmpty
    }
}
