import NIOCore

/// Timers that a script has started. Belongs to the connection's event loop.
struct FaultTimers {
    private var once: [Int: Scheduled<Void>] = [:]
    private var repeated: [RepeatedTask] = []
    private var nextNumber = 0
    private var isOver = false

    mutating func number() -> Int {
        nextNumber += 1
        return nextNumber
    }

    mutating func add(_ timer: Scheduled<Void>, _ number: Int) {
        if isOver { timer.cancel() } else { once[number] = timer }
    }

    mutating func add(_ timer: RepeatedTask) {
        if isOver { timer.cancel() } else { repeated.append(timer) }
    }

    mutating func fired(_ number: Int) {
        once[number] = nil
    }

    mutating func cancelAll() {
        isOver = true
        for timer in once.values { timer.cancel() }
        for timer in repeated { timer.cancel() }
        once = [:]
        repeated = []
    }
}
