import Dispatch
import Synchronization

/// A value that callbacks change while asynchronous tests wait for a condition: no polling, always with a time limit.
package final class Observed<Value: Sendable>: Sendable {
    private struct Waiter {
        let condition: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Bool, Never>
    }
    private struct State {
        var value: Value
        var waiters: [Int: Waiter] = [:]
        var nextWaiter = 0
    }
    private let state: Mutex<State>

    package init(_ value: Value) { state = Mutex(State(value: value)) }

    package var value: Value { state.withLock(\.value) }

    @discardableResult
    package func change<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
        let (result, ready) = state.withLock { state in
            let result = body(&state.value)
            let ready = state.waiters.filter { $0.value.condition(state.value) }
            for id in ready.keys { state.waiters[id] = nil }
            return (result, ready.values)
        }
        for waiter in ready { waiter.continuation.resume(returning: true) }
        return result
    }

    /// - Returns: true if the condition held before the timeout.
    package func wait(_ limit: Duration = .seconds(20), until condition: @escaping @Sendable (Value) -> Bool) async
        -> Bool
    {
        await withCheckedContinuation { continuation in
            let id = state.withLock { state in
                state.nextWaiter += 1
                state.waiters[state.nextWaiter] = Waiter(condition: condition, continuation: continuation)
                return state.nextWaiter
            }
            // The condition may hold already.
            change { _ in }
            DispatchQueue.global().asyncAfter(deadline: .now() + limit / .seconds(1)) { [weak self] in
                self?.state.withLock { $0.waiters.removeValue(forKey: id) }?.continuation.resume(returning: false)
            }
        }
    }
}
