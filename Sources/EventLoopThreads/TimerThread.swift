import Synchronization

/// The process's thread for all timers. It only moves work that is due to its queue, and ends when there are no timers.
enum TimerThread {
    private struct Timer: Sendable {
        let due: Duration
        let queue: SerialQueue
        let work: @Sendable () -> Void
    }
    private struct State {
        /// The next one is the last.
        var timers: [Timer] = []
        var isRunning = false
    }
    private static let state = Mutex(State())
    private static let wakeUp = WakeUp()
    private static let idleTime = Duration.seconds(2)

    /// - Parameter due: a `monotonicTime`.
    static func schedule(at due: Duration, _ queue: SerialQueue, _ work: @escaping @Sendable () -> Void) {
        let (isNext, isRunning) = state.withLock { state in
            // Timers with the same deadline fire in the order in which they were scheduled.
            let index = state.timers.firstIndex { $0.due <= due } ?? state.timers.endIndex
            state.timers.insert(Timer(due: due, queue: queue, work: work), at: index)
            defer { state.isRunning = true }
            return (index == state.timers.count - 1, state.isRunning)
        }
        if isRunning {
            if isNext { wakeUp.signal() }
        } else if !startThread(nil, { _ in TimerThread.run() }) {
            // The next timer tries again.
            state.withLock { $0.isRunning = false }
        }
    }

    private static func run() -> UnsafeMutableRawPointer? {
        setThreadName("decart-timers")
        while true {
            if let next = fireWhatIsDue() {
                wakeUp.wait(until: next)
            } else if !wakeUp.wait(until: monotonicTime + idleTime) {
                let isOver = state.withLock { state in
                    state.isRunning = !state.timers.isEmpty
                    return !state.isRunning
                }
                if isOver { return nil }
            }
        }
    }

    /// Returns when the next timer is due; nil: there is none.
    private static func fireWhatIsDue() -> Duration? {
        while true {
            let (timer, next) = state.withLock { state -> (Timer?, Duration?) in
                guard let timer = state.timers.last, timer.due <= monotonicTime else {
                    return (nil, state.timers.last?.due)
                }
                return (state.timers.removeLast(), nil)
            }
            guard let timer else { return next }
            timer.queue.async(timer.work)
        }
    }
}
