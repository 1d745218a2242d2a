// The serial queue of one session. Ending it drops the work that still waits: the caller of `end` waits for the running
// piece of work only, however many messages the service has sent.
import Dispatch
import Synchronization

package final class SessionQueue: SessionScheduler {
    private let queue: DispatchQueue
    private let scheduler: DispatchScheduler
    private let isOnQueue = DispatchSpecificKey<Bool>()
    private let isOver = Atomic(false)
    private let keep: @Sendable () -> AnyObject?

    /// - Parameter keep: gives what must not go while a piece of work runs, such as the element that the work calls
    ///   back for: an application may let go of it in such a call. Called at the beginning of each piece, and never
    ///   after the end.
    package init(label: String, keeping keep: @escaping @Sendable () -> AnyObject? = { nil }) {
        queue = DispatchQueue(label: label)
        scheduler = DispatchScheduler(queue: queue)
        self.keep = keep
        queue.setSpecific(key: isOnQueue, value: true)
    }

    package var now: Duration { scheduler.now }

    package func async(_ work: @escaping @Sendable () -> Void) {
        queue.async { self.run(work) }
    }

    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        // Weakly: a timer may be due in hours.
        scheduler.schedule(after: delay) { [weak self] in self?.run(work) }
    }

    private func run(_ work: () -> Void) {
        guard !isOver.load(ordering: .acquiring) else { return }
        withExtendedLifetime(keep()) { work() }
    }

    /// True on this queue.
    package var isCurrent: Bool { DispatchQueue.getSpecific(key: isOnQueue) == true }

    /// Drops what waits, does the last piece of work, and returns after that. Called from within a piece of work it
    /// returns at once: the last piece runs after the present one. To be called once.
    package func end(_ last: @escaping @Sendable () -> Void) {
        isOver.store(true, ordering: .releasing)
        guard isCurrent else { return queue.sync(execute: last) }
        queue.async { [kept = Kept(object: keep())] in withExtendedLifetime(kept) { last() } }
    }

    // @unchecked: it is held, and not used.
    private struct Kept: @unchecked Sendable { let object: AnyObject? }
}
