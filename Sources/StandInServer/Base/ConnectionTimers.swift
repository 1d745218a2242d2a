import NIOCore

/// Timers of a connection, which end with it. Belongs to its event loop.
final class ConnectionTimers {
    private var once: [Int: Scheduled<Void>] = [:]
    private var repeated: [RepeatedTask] = []
    private var lastNumber = 0
    private var isOver = false

    func after(_ time: TimeAmount, on eventLoop: any EventLoop, _ body: @escaping () -> Void) {
        guard !isOver else { return }
        lastNumber += 1
        let number = lastNumber
        once[number] = eventLoop.assumeIsolated().scheduleTask(in: time) {
            self.once[number] = nil
            body()
        }
    }

    func every(
        _ interval: TimeAmount, from delay: TimeAmount? = nil, on eventLoop: any EventLoop,
        _ body: @escaping (RepeatedTask) -> Void
    ) {
        guard !isOver else { return }
        let bound = NIOLoopBound(body, eventLoop: eventLoop)
        repeated.append(
            eventLoop.scheduleRepeatedTask(initialDelay: delay ?? interval, delay: interval) { bound.value($0) })
    }

    func cancelAll() {
        isOver = true
        for timer in once.values { timer.cancel() }
        for timer in repeated { timer.cancel() }
        (once, repeated) = ([:], [])
    }
}
