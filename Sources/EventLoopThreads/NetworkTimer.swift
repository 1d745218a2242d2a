private import Synchronization

/// A one-shot timer on a network thread. `cancel()` can be called from any thread and repeatedly.
///
/// A cancelled timer holds nothing. After a cancel on the network thread the work never runs. After a cancel on another
/// thread, work that is already running finishes.
package final class NetworkTimer: Sendable {
    /// GLib's monotonic time, µs.
    fileprivate let due: Int
    private let work: Mutex<(@Sendable () -> Void)?>

    fileprivate init(due: Int, work: @escaping @Sendable () -> Void) {
        self.due = due
        self.work = Mutex(work)
    }

    package func cancel() { _ = takeWork() }

    fileprivate func fire() { takeWork()?() }

    /// False after `cancel` and from the moment at which the work begins.
    fileprivate var isPending: Bool { work.withLock { $0 != nil } }

    /// The closure is released outside the lock, and as soon as it is not needed: not when the timer would be due.
    private func takeWork() -> (@Sendable () -> Void)? {
        work.withLock { held in
            defer { held = nil }
            return held
        }
    }
}

/// The timers of a network thread by the time at which they are due. GLib visits each of its sources at each wake-up; the
/// first of these is enough.
final class NetworkTimers: Sendable {
    private struct State: Sendable {
        /// The next one is the last. Of those of the same time, it is the one that was added first.
        var timers: [NetworkTimer] = []
        /// Cancelled timers stay until they are the next or the number of timers reaches this.
        var limit = NetworkTimers.fewest

        /// Returns true if the timer is due before all others.
        mutating func add(_ timer: NetworkTimer) -> Bool {
            if timers.count >= limit {
                timers.removeAll { !$0.isPending }
                limit = max(NetworkTimers.fewest, 2 * timers.count)
            }
            var (low, high) = (0, timers.count)
            while low < high {
                let middle = (low + high) / 2
                if timers[middle].due > timer.due { low = middle + 1 } else { high = middle }
            }
            timers.insert(timer, at: low)
            return low == timers.count - 1
        }
    }
    private static let fewest = 64
    private let state = Mutex(State())

    /// - Parameter now: GLib's monotonic time, µs.
    /// - Returns: the timer, and true if it is due before all others.
    func add(
        after delay: Duration, now: Int, _ work: @escaping @Sendable () -> Void
    ) -> (timer: NetworkTimer, isFirst: Bool) {
        let timer = NetworkTimer(due: now + delay.wholeMicroseconds, work: work)
        return (timer, state.withLock { $0.add(timer) })
    }

    /// The time at which `fire` has something to do; nil: there is no timer. A cancelled one must not wake the thread.
    var nextDue: Int? {
        state.withLock { state in
            while let next = state.timers.last, !next.isPending { state.timers.removeLast() }
            return state.timers.last?.due
        }
    }

    /// Runs what is due. Returns false if nothing was.
    func fire(now: Int) -> Bool {
        var hasFired = false
        while let timer = takeDue(now) {
            timer.fire()
            hasFired = true
        }
        return hasFired
    }

    private func takeDue(_ now: Int) -> NetworkTimer? {
        state.withLock { state in
            guard let next = state.timers.last, next.due <= now else { return nil }
            return state.timers.popLast()
        }
    }
}

extension NetworkThread {
    /// Schedules `work` in place of `timer`, unless that fires up to 10 ms earlier: where each packet postpones the time a
    /// little, one call that comes too early costs less than many timers. Call on the thread.
    package func move(_ timer: inout NetworkTimer?, after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        let pending = timer.flatMap { $0.isPending ? $0 : nil }
        if let pending, (0...10_000).contains(NetworkLoop.now + delay.wholeMicroseconds - pending.due) { return }
        pending?.cancel()
        timer = schedule(after: delay, work)
    }
}

extension Duration {
    /// The duration in microseconds, rounded up; at most a thousand years, so that it can be added to a time.
    fileprivate var wholeMicroseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 31_536_000_000 else { return 31_536_000_000_000_000 }
        return Int(seconds * 1_000_000 + (attoseconds + 999_999_999_999) / 1_000_000_000_000)
    }
}
