// The serial queue of one session. `end` drops the work that still waits, so its caller waits only for the work item
// that is running, however many messages the service has sent.
import EventLoopThreads
import Synchronization

package final class SessionQueue: SessionScheduler {
    private let queue: SerialQueue
    private let isOver = Atomic(false)
    private let keep: @Sendable () -> AnyObject?

    /// - Parameter keep: returns an object that must outlive each work item, such as the element that the work calls
    ///   back: an application may release it in such a call. Called at the start of each item and by `end`, but never
    ///   later.
    package init(label: String, keeping keep: @escaping @Sendable () -> AnyObject? = { nil }) {
        queue = SerialQueue(label: label)
        self.keep = keep
    }

    package var now: Duration { monotonicTime }

    package func async(_ work: @escaping @Sendable () -> Void) {
        queue.async { self.run(work) }
    }

    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        // Weak, because a timer may be due in hours.
        queue.schedule(after: delay) { [weak self] in self?.run(work) }
    }

    private func run(_ work: () -> Void) {
        guard !isOver.load(ordering: .acquiring) else { return }
        withExtendedLifetime(keep()) { work() }
    }

    package var isCurrent: Bool { queue.isCurrent }

    /// Drops the work that waits, runs `last` and then returns. On this queue it returns at once, and `last` runs after
    /// the current work item; elsewhere too if that item takes longer than 0.8 s, because the caller is the application.
    /// Call it only once.
    package func end(_ last: @escaping @Sendable () -> Void) {
        isOver.store(true, ordering: .releasing)
        let work = { @Sendable [kept = Kept(object: keep())] in withExtendedLifetime(kept) { last() } }
        if isCurrent { queue.async(work) } else { queue.sync(within: .milliseconds(800), work) }
    }

    // @unchecked: the object is only kept alive and never accessed.
    private struct Kept: @unchecked Sendable { let object: AnyObject? }
}
