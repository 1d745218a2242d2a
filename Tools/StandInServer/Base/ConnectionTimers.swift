import EventLoopThreads

/// Timers of a connection, which end with it. Belongs to its thread.
final class ConnectionTimers {
    private let thread: NetworkThread
    private var timers: [Int: NetworkTimer] = [:]
    private var lastNumber = 0
    private var isOver = false

    init(on thread: NetworkThread) { self.thread = thread }

    func after(_ time: Duration, _ body: @escaping () -> Void) {
        guard !isOver else { return }
        lastNumber += 1
        let number = lastNumber
        timers[number] = thread.later(after: time) {
            self.timers[number] = nil
            body()
        }
    }

    func every(_ interval: Duration, _ body: @escaping () -> Void) {
        after(interval) {
            body()
            self.every(interval, body)
        }
    }

    func cancelAll() {
        isOver = true
        for timer in timers.values { timer.cancel() }
        timers = [:]
    }
}
