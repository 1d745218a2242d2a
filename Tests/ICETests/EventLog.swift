import ICE
import TestSupport

/// Collects values from callbacks and lets a test wait for one, with a time limit and without sleeping.
final class EventLog<Element: Sendable>: Sendable {
    private let log = Observed<[Element]>([])

    var elements: [Element] { log.value }

    func append(_ element: Element) { log.change { $0.append(element) } }

    /// Returns the first matching element, past or future; nil after `limit`.
    func first(
        within limit: Duration = .seconds(20), where matches: @escaping @Sendable (Element) -> Bool
    ) async -> Element? {
        await log.wait(limit) { $0.contains(where: matches) } ? elements.first(where: matches) : nil
    }

    /// Returns true as soon as there are `count` elements; false after `limit`.
    func reaches(count: Int, within limit: Duration = .seconds(20)) async -> Bool {
        await log.wait(limit) { $0.count >= count }
    }
}

/// Waits without blocking a thread.
func pause(_ time: Duration) async {
    await withCheckedContinuation { continuation in
        _ = NetworkThread.shared.schedule(after: time) { continuation.resume() }
    }
}

extension ICEEvent {
    /// Of a consent check that the peer answered.
    var roundTrip: Duration? {
        guard case .consentConfirmed(let time) = self else { return nil }
        return time
    }
}
