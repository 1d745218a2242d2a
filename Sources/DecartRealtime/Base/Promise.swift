import Synchronization

/// A result that one side sets once and tasks wait for. The cancellation of a task ends its wait.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case pending([Int: CheckedContinuation<Value, any Error>], next: Int)
        case resolved(Result<Value, any Error>)
    }
    private let state = Mutex(State.pending([:], next: 0))

    /// The first result counts.
    func resolve(_ result: Result<Value, any Error>) {
        let waiters = state.withLock { state -> [CheckedContinuation<Value, any Error>] in
            guard case .pending(let waiters, _) = state else { return [] }
            state = .resolved(result)
            return Array(waiters.values)
        }
        for waiter in waiters { waiter.resume(with: result) }
    }

    var isPending: Bool { state.withLock { if case .pending = $0 { true } else { false } } }

    func value() async throws -> Value {
        let id = state.withLock { state -> Int in
            guard case .pending(let waiters, let next) = state else { return 0 }
            state = .pending(waiters, next: next + 1)
            return next
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    guard case .pending(var waiters, let next) = state else {
                        if case .resolved(let result) = state { return result }
                        return nil
                    }
                    // The handler below may have run before.
                    guard !Task.isCancelled else { return .failure(CancellationError()) }
                    waiters[id] = continuation
                    state = .pending(waiters, next: next)
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
                guard case .pending(var waiters, let next) = state else { return nil }
                let waiter = waiters.removeValue(forKey: id)
                state = .pending(waiters, next: next)
                return waiter
            }
            waiter?.resume(throwing: CancellationError())
        }
    }
}

extension Promise where Value == Void {
    func fulfil() { resolve(.success(())) }
}
