import EventLoopThreads
import GStreamerKit
import Synchronization

/// Calls a handler periodically on a queue of its own. Any thread may restart or stop it.
package final class PeriodicTimer: Sendable {
    /// One start. It ends with its last reference, which is in `run`.
    private final class Run: Sendable {
        private let queue: SerialQueue
        private let interval: Duration
        private let fire: @Sendable () -> Void

        init(_ queue: SerialQueue, _ interval: Duration, _ fire: @escaping @Sendable () -> Void) {
            (self.queue, self.interval, self.fire) = (queue, interval, fire)
        }

        func schedule(at due: Duration) {
            queue.schedule(after: due - monotonicTime) { [weak self] in
                guard let self else { return }
                fire()
                schedule(at: max(due + interval, monotonicTime))
            }
        }
    }
    private let queue: SerialQueue
    private let run = Mutex<Run?>(nil)
    /// `run` is set; read with each frame.
    private let isOn = Atomic(false)

    package init(_ label: String) { queue = SerialQueue(label: label) }

    package var isRunning: Bool { isOn.load(ordering: .acquiring) }

    /// Starts the timer, or replaces the running one.
    package func start(every time: Duration, _ fire: @escaping @Sendable () -> Void) {
        let interval = max(time, .milliseconds(1))
        let next = Run(queue, interval, fire)
        replace(by: next)
        next.schedule(at: monotonicTime + interval)
    }

    /// Stops the timer. A handler that already runs may end after this returns.
    package func stop() { replace(by: nil) }

    /// Stops the timer and waits for a running handler, unless that handler makes the call.
    package func finish() {
        stop()
        if !queue.isCurrent { queue.sync {} }
    }

    private func replace(by next: Run?) {
        // Released outside of the lock, together with what its handler holds.
        _ = run.withLock { run in
            isOn.store(next != nil, ordering: .releasing)
            return exchange(&run, with: next)
        }
    }
}
