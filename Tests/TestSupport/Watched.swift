import Dispatch
import Synchronization

/// A value that one thread changes while others wait for it: no polling, always with a time limit.
package final class Watched<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var waiters: [Int: DispatchSemaphore] = [:]
        var nextWaiter = 0
    }
    private let state: Mutex<State>

    package init(_ value: Value) { state = Mutex(State(value: value)) }

    package var value: Value { state.withLock(\.value) }

    package func read<Result: Sendable>(_ body: (Value) -> Result) -> Result { state.withLock { body($0.value) } }

    package func change(_ body: (inout Value) -> Void) {
        let waiters = state.withLock { state in
            body(&state.value)
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.signal() }
    }

    /// The limit is generous, because a condition that comes true ends the wait.
    /// - Returns: true if the condition held before the timeout.
    package func wait(seconds: Double = 60, until condition: (Value) -> Bool) -> Bool {
        let semaphore = DispatchSemaphore(value: 0)
        let deadline = DispatchTime.now() + seconds
        let id = state.withLock { state in
            state.nextWaiter += 1
            state.waiters[state.nextWaiter] = semaphore
            return state.nextWaiter
        }
        defer { state.withLock { _ = $0.waiters.removeValue(forKey: id) } }
        while true {
            if state.withLock({ condition($0.value) }) { return true }
            if semaphore.wait(timeout: deadline) == .timedOut { return state.withLock { condition($0.value) } }
        }
    }

    package func wait(_ limit: Duration, until condition: (Value) -> Bool) -> Bool {
        wait(seconds: limit / .seconds(1), until: condition)
    }

    /// Waits for `limit` unless the condition comes true first: proves that something does not happen.
    package func staysFalse(_ limit: Duration, _ condition: (Value) -> Bool) -> Bool { !wait(limit, until: condition) }
}
