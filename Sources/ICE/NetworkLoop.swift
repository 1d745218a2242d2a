// The loop of a network thread: that of GLib, with a short cut for media. GLib visits all its sources at each wake-up,
// and it wakes itself twice for each source that it dispatches.
private import CNice
private import Synchronization

// @unchecked: constant, atomic, or used on the loop's own thread only.
final class NetworkLoop: @unchecked Sendable {
    private let context: MainContext
    /// GLib does not wake its own thread for a source that is attached there, so the loop must look for it.
    private let mustLookForSources = Atomic(false)
    /// libnice might attach sources too while media are read.
    private static let longestShortCut: gint64 = 1_000_000

    // MARK: The loop's own thread
    private var readers: [CInt: () -> Bool] = [:]
    private var descriptors = [GPollFD](repeating: GPollFD(), count: 64)
    private var poller = DescriptorPoller()

    init(context: MainContext) { self.context = context }

    /// Call before a source is attached. Any thread.
    func sourcesChange() { mustLookForSources.store(true, ordering: .releasing) }

    func setReader(_ descriptor: CInt, _ read: (() -> Bool)?) { readers[descriptor] = read }

    /// Call after a descriptor is closed, because the next one may have its number.
    func descriptorsChange() { poller.forget() }

    func run() {
        g_main_context_acquire(context.pointer)
        g_main_context_push_thread_default(context.pointer)
        while true { iterate() }
    }

    private func iterate() {
        mustLookForSources.store(false, ordering: .releasing)
        var (priority, timeout): (gint, gint) = (0, -1)
        g_main_context_prepare(context.pointer, &priority)
        let count = query(&timeout)
        descriptors.withUnsafeMutableBufferPointer { all in
            guard let base = all.baseAddress else { return }
            wait(UnsafeMutableBufferPointer(start: base, count: count), timeout)
            g_main_context_check(context.pointer, priority, base, gint(count))
        }
        g_main_context_dispatch(context.pointer)
    }

    private func query(_ timeout: inout gint) -> Int {
        while true {
            let wanted = descriptors.withUnsafeMutableBufferPointer {
                Int(g_main_context_query(context.pointer, gint.max, &timeout, $0.baseAddress, gint($0.count)))
            }
            guard wanted > descriptors.count else { return wanted }
            descriptors = [GPollFD](repeating: GPollFD(), count: 2 * wanted)
        }
    }

    /// Polls, and reads media meanwhile, until GLib has something to do.
    private func wait(_ polled: UnsafeMutableBufferPointer<GPollFD>, _ timeout: gint) {
        poller.take(polled)
        guard poller.wait(polled, timeout) > 0, !readers.isEmpty else { return }
        let start = g_get_monotonic_time()
        let end = start + (timeout < 0 ? Self.longestShortCut : min(gint64(timeout) * 1000, Self.longestShortCut))
        while readMedia(polled), !mustLookForSources.load(ordering: .acquiring) {
            let now = g_get_monotonic_time()
            guard now < end, poller.wait(polled, gint((end - now + 999) / 1000)) > 0 else { return }
        }
    }

    /// Returns true if nothing is left for GLib.
    private func readMedia(_ polled: UnsafeMutableBufferPointer<GPollFD>) -> Bool {
        let readable = gushort(G_IO_IN.rawValue)
        var isDone = true
        for index in polled.indices where polled[index].revents != 0 {
            if polled[index].revents & readable != 0, let read = readers[polled[index].fd], read() {
                polled[index].revents &= ~readable
            }
            isDone = isDone && polled[index].revents == 0
        }
        return isDone
    }
}
