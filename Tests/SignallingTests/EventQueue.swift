import Dispatch
import Synchronization
import Testing

/// Events in order, for one reader. Each wait has a timeout, which records an issue with its name and ends the queue,
/// so that a test that continues does not wait again.
final class EventQueue<Element: Sendable>: Sendable {
    private enum Next: Sendable {
        case element(Element)
        case end
        case timedOut
    }

    private struct State {
        var elements: [Element] = []
        var isFinished = false
        /// Counts the waits, so that the timeout of an earlier wait cannot end a later one.
        var waits = 0
        var reader: CheckedContinuation<Next, Never>?

        mutating func takeNext() -> Next? {
            if !elements.isEmpty { return .element(elements.removeFirst()) }
            return isFinished ? .end : nil
        }

        mutating func takeReader() -> (CheckedContinuation<Next, Never>, Next)? {
            guard let reader, let next = takeNext() else { return nil }
            self.reader = nil
            return (reader, next)
        }
    }

    private let state = Mutex(State())

    func yield(_ element: Element) { change { if !$0.isFinished { $0.elements.append(element) } } }

    func finish() { change { $0.isFinished = true } }

    private func change(_ body: (inout State) -> Void) {
        let ready = state.withLock { state in
            body(&state)
            return state.takeReader()
        }
        if let (reader, next) = ready { reader.resume(returning: next) }
    }

    /// - Parameter what: completes "Waited 20 s for …".
    /// - Returns: nil at the end.
    func next(
        _ what: String = "the next event", within limit: Duration = .seconds(20),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async -> Element? {
        switch await wait(limit) {
        case .element(let element): return element
        case .end: return nil
        case .timedOut:
            Issue.record("Waited \(limit) for \(what)", sourceLocation: sourceLocation)
            return nil
        }
    }

    private func wait(_ limit: Duration) async -> Next {
        await withCheckedContinuation { continuation in
            let (next, wait) = state.withLock { state in
                let next = state.takeNext()
                if next == nil { state.reader = continuation }
                state.waits += 1
                return (next, state.waits)
            }
            if let next { return continuation.resume(returning: next) }
            DispatchQueue.global().asyncAfter(deadline: .now() + limit / .seconds(1)) { [weak self] in
                self?.expire(wait)
            }
        }
    }

    private func expire(_ wait: Int) {
        let reader = state.withLock { state -> CheckedContinuation<Next, Never>? in
            guard state.waits == wait, let reader = state.reader else { return nil }
            (state.reader, state.isFinished) = (nil, true)
            return reader
        }
        reader?.resume(returning: .timedOut)
    }

    /// Returns all events until the end.
    func rest(sourceLocation: SourceLocation = #_sourceLocation) async -> [Element] {
        var all: [Element] = []
        while let element = await next("the end, after \(all)", sourceLocation: sourceLocation) { all.append(element) }
        return all
    }

    /// Returns the next matching event and drops those before it.
    func first(
        _ what: String, sourceLocation: SourceLocation = #_sourceLocation, where fits: (Element) -> Bool
    ) async -> Element? {
        while let element = await next(what, sourceLocation: sourceLocation) {
            if fits(element) { return element }
        }
        return nil
    }
}
