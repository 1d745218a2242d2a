import ICE
import Synchronization

/// Collects values from callbacks and lets a test wait for one, with a time limit and without sleeping.
final class EventLog<Element: Sendable>: Sendable {
    private struct Waiter {
        let id: Int
        let find: @Sendable ([Element]) -> Element?
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
        let ready = state.withLock { state -> [(waiter: Waiter, found: Element)] in
            state.elements.append(element)
            let elements = state.elements
            let ready = state.waiters.compactMap { waiter in waiter.find(elements).map { (waiter, $0) } }
            state.waiters.removeAll { waiter in ready.contains { $0.0.id == waiter.id } }
            return ready
        }
        for (waiter, found) in ready { waiter.continuation.resume(returning: found) }
    }

    /// Returns the first matching element, past or future; nil after `limit`.
    func first(
        within limit: Duration = .seconds(20), where matches: @escaping @Sendable (Element) -> Bool
    ) async -> Element? {
        await wait(limit) { $0.first(where: matches) }
    }

    /// Returns true as soon as there are `count` elements, at least one; false after `limit`.
    func reaches(count: Int, within limit: Duration = .seconds(20)) async -> Bool {
        await wait(limit) { $0.count >= count ? $0.last : nil } != nil
    }

    private func wait(_ limit: Duration, _ find: @escaping @Sendable ([Element]) -> Element?) async -> Element? {
        await withCheckedContinuation { continuation in
            let found: (Element?, Int) = state.withLock { state in
                if let element = find(state.elements) { return (element, 0) }
                state.nextID += 1
                state.waiters.append(Waiter(id: state.nextID, find: find, continuation: continuation))
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

extension ICEEvent {
    /// Of a consent check that the peer answered.
    var roundTrip: Duration? {
        guard case .consentConfirmed(let time) = self else { return nil }
        return time
    }
}
