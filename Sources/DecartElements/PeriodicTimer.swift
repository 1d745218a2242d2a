import Dispatch
import Synchronization

/// Something done again and again on a queue of its own; set anew or ended at any time, from any thread.
final class PeriodicTimer: Sendable {
    // @unchecked: a dispatch source locks itself.
    private struct Source: @unchecked Sendable { let timer: any DispatchSourceTimer }
    private let queue: DispatchQueue
    private let source = Mutex<Source?>(nil)
    private let isOnQueue = DispatchSpecificKey<Bool>()

    init(_ label: String) { queue = DispatchQueue(label: label) }

    deinit { stop() }

    var isRunning: Bool { source.withLock { $0 != nil } }

    /// In place of what ran before.
    func start(every milliseconds: Int, _ fire: @escaping @Sendable () -> Void) {
        // Not in `init`: this starts worker threads, and an element below READY must have none.
        queue.setSpecific(key: isOnQueue, value: true)
        let timer = DispatchSource.makeTimerSource(queue: queue)
        let interval = DispatchTimeInterval.milliseconds(max(1, milliseconds))
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: .milliseconds(max(1, milliseconds / 10)))
        timer.setEventHandler(handler: fire)
        timer.resume()
        replace(by: Source(timer: timer))
    }

    /// What is being done just now may still end after this.
    func stop() { replace(by: nil) }

    /// Returns when what is being done just now has ended, unless it is called from there.
    func finish() {
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
