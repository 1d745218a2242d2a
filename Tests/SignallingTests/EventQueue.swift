import DecartSession
import TestSupport
import Testing

/// Events in order, for one reader. Each wait has a timeout, which records an issue with its name and ends the queue,
/// so that a test that continues does not wait again.
final class EventQueue<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var isFinished = false
    }
    private let state = Observed(State())

    func yield(_ element: Element) { state.change { if !$0.isFinished { $0.elements.append(element) } } }

    func finish() { state.change { $0.isFinished = true } }

    /// - Parameter what: completes "Waited 20 s for …".
    /// - Returns: nil at the end.
    func next(
        _ what: String = "the next event", within limit: Duration = .seconds(20),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async -> Element? {
        guard await state.wait(limit, until: { !$0.elements.isEmpty || $0.isFinished }) else {
            finish()
            Issue.record("Waited \(limit) for \(what)", sourceLocation: sourceLocation)
            return nil
        }
        return state.change { $0.elements.isEmpty ? nil : $0.elements.removeFirst() }
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

extension EventQueue<SignallingEvent> {
    /// Adds an event of a channel; its end is that of the queue.
    func record(_ event: SignallingEvent) {
        yield(event)
        switch event {
        case .closed, .failed: finish()
        case .opened, .text, .binary, .silent, .answered: break
        }
    }
}
