import Synchronization

/// Values for any number of streams, each of which gets those that come after it was made.
final class Broadcast<Value: Sendable>: Sendable {
    private struct State {
        var continuations: [Int: AsyncStream<Value>.Continuation] = [:]
        var next = 0
        var isOver = false
    }
    private let state = Mutex(State())
    private let newest: Int

    /// - Parameter newest: the number of unread values that each stream buffers; older ones are dropped.
    init(newest: Int) { self.newest = newest }

    /// - Parameter first: what the stream begins with.
    func stream(from first: Value? = nil) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(newest))
        if let first { continuation.yield(first) }
        let id = state.withLock { state -> Int? in
            guard !state.isOver else { return nil }
            state.next += 1
            state.continuations[state.next] = continuation
            return state.next
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.continuations.removeValue(forKey: id) }
        }
        return stream
    }

    func yield(_ value: Value) {
        for continuation in state.withLock({ Array($0.continuations.values) }) { continuation.yield(value) }
    }

    /// Ends the present streams; with `forGood`, later ones too.
    func finish(forGood: Bool = false) {
        let ended = state.withLock { state in
            defer { state.continuations = [:] }
            state.isOver = state.isOver || forGood
            return Array(state.continuations.values)
        }
        for continuation in ended { continuation.finish() }
    }
}
