import ICE
import Synchronization

/// Collects values from callbacks and lets a test wait for one, with a time limit and without sleeping.
final class EventLog<Element: Sendable>: Sendable {
    private struct Waiter {
        let id: Int
        let matches: @Sendable (Element) -> Bool
        let continuation: CheckedContinuation<Element?, Never>
    }
    private struct State {
        var elements: [Element] = []
        var waiters: [Waiter] = []
        var nextID = 0
    }
    private let state = Mutex<State>(State())

    var elements: [Element] { state.withLock { $0.elements } }

    func append(_ element: Element) {
        let ready = state.withLock { state in
            state.elements.append(element)
            let ready = state.waiters.filter { $0.matches(element) }
            state.waiters.removeAll { $0.matches(element) }
            return ready
        }
        for waiter in ready { waiter.continuation.resume(returning: element) }
    }

    /// Returns the first matching element, past or future; nil after `limit`.
    func first(
        within limit: Duration = .seconds(10), where matches: @escaping @Sendable (Element) -> Bool
    ) async -> Element? {
        await withCheckedContinuation { continuation in
            let found: (Element?, Int) = state.withLock { state in
                if let element = state.elements.first(where: matches) { return (element, 0) }
                state.nextID += 1
                state.waiters.append(Waiter(id: state.nextID, matches: matches, continuation: continuation))
                return (nil, state.nextID)
            }
            if let element = found.0 {
                continuation.resume(returning: element)
                return
            }
            NetworkThread.shared.schedule(after: limit) {
                let expired = self.state.withLock { state in
                    let expired = state.waiters.filter { $0.id == found.1 }
                    state.waiters.removeAll { $0.id == found.1 }
                    return expired
                }
                for waiter in expired { waiter.continuation.resume(returning: nil) }
            }
        }
    }
}
