import Dispatch
import Synchronization

/// A value whose changes tests can wait for: no polling, always with a time limit.
final class Watched<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var value: Value
        var waiters: [Int: (condition: @Sendable (Value) -> Bool, semaphore: DispatchSemaphore)] = [:]
        var next = 0
    }
    private let state: Mutex<State>

    init(_ value: Value) { state = Mutex(State(value: value)) }

    var value: Value { state.withLock { $0.value } }

    func change(_ body: (inout Value) -> Void) {
        let due = state.withLock { state in
            body(&state.value)
            let due = state.waiters.filter { $0.value.condition(state.value) }
            for id in due.keys { state.waiters[id] = nil }
            return due
        }
        for waiter in due.values { waiter.semaphore.signal() }
    }

    /// True if `condition` came true within `limit`.
    func wait(_ limit: Duration, until condition: @escaping @Sendable (Value) -> Bool) -> Bool {
        let semaphore = DispatchSemaphore(value: 0)
        let id: Int? = state.withLock { state in
            guard !condition(state.value) else { return nil }
            state.next += 1
            state.waiters[state.next] = (condition, semaphore)
            return state.next
        }
        guard let id else { return true }
        if semaphore.wait(timeout: .now() + .milliseconds(Int(clamping: limit.milliseconds))) == .success {
            return true
        }
        return state.withLock { $0.waiters.removeValue(forKey: id) == nil }
    }

    /// Waits for `limit` unless `condition` comes true first: proves that something does not happen.
    func staysFalse(_ limit: Duration, _ condition: @escaping @Sendable (Value) -> Bool) -> Bool {
        !wait(limit, until: condition)
    }
}
