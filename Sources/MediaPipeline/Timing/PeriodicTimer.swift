import Dispatch
import GStreamerKit
import Synchronization

/// Calls a handler periodically on a queue of its own. Any thread may restart or stop it.
package final class PeriodicTimer: Sendable {
    // @unchecked: dispatch sources are thread-safe.
    private struct Source: @unchecked Sendable { let timer: any DispatchSourceTimer }
    private let queue: DispatchQueue
    private let source = Mutex<Source?>(nil)
    private let isOnQueue = DispatchSpecificKey<Bool>()

    package init(_ label: String) { queue = DispatchQueue(label: label) }

    deinit { stop() }

    package var isRunning: Bool { source.withLock { $0 != nil } }

    /// Starts the timer, or replaces the running one.
    package func start(every time: Duration, _ fire: @escaping @Sendable () -> Void) {
        // Set here and not in `init` because it starts worker threads, and an element below READY must have none.
        queue.setSpecific(key: isOnQueue, value: true)
        let timer = DispatchSource.makeTimerSource(queue: queue)
        let nanoseconds = max(1_000_000, Int(clamping: time.clockTime))
        let interval = DispatchTimeInterval.nanoseconds(nanoseconds)
        timer.schedule(
            deadline: .now() + interval, repeating: interval, leeway: .nanoseconds(max(1_000_000, nanoseconds / 10)))
        timer.setEventHandler(handler: fire)
        timer.resume()
        replace(by: Source(timer: timer))
    }

    /// Stops the timer. A handler that already runs may end after this returns.
    package func stop() { replace(by: nil) }

    /// Stops the timer and waits for a running handler, unless that handler makes the call.
    package func finish() {
        stop()
        if DispatchQueue.getSpecific(key: isOnQueue) != true { queue.sync {} }
    }

    private func replace(by next: Source?) {
        let old = source.withLock { source in
            defer { source = next }
            return source
        }
        old?.timer.cancel()
    }
}
