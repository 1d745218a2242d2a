import GStreamerKit
import TestSupport

/// Collects the messages of a test's pipeline in a sync handler, so that none waits in the bus: before GStreamer 1.26
/// the bus's queue can lose a message while more than 32 wait and several threads post, and a lost message leaks the
/// element that it names.
final class BusWatch: Sendable {
    private let messages = Watched<[Message]>([])
    private let observer = Watched<(@Sendable (Message) -> Void)?>(nil)

    init(_ pipeline: Pipeline) {
        pipeline.bus.setSyncHandler { [weak self] message in
            guard let self else { return }
            self.messages.change { $0.append(message) }
            self.observer.value?(message)
        }
    }

    /// Calls the handler with each later message, on the thread that posts it.
    func onMessage(_ handler: (@Sendable (Message) -> Void)?) { observer.change { $0 = handler } }

    /// Returns the next message, or nil if none is posted within `timeout`.
    func next(timeout: Duration) -> Message? {
        guard messages.wait(seconds: timeout / .seconds(1), until: { !$0.isEmpty }) else { return nil }
        var first: Message?
        messages.change { if !$0.isEmpty { first = $0.removeFirst() } }
        return first
    }
}
