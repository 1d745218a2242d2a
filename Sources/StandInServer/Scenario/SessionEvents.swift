import Synchronization

/// Passes events of sessions to the running scenario. Events come on the event loop; the receiver must not block.
final class SessionEvents: Sendable {
    private struct Receiver: Sendable {
        let call: @Sendable (SessionEvent, ContinuousClock.Instant) -> Void
    }

    private let receiver = Mutex<Receiver?>(nil)

    func happened(_ event: SessionEvent) {
        receiver.withLock { $0 }?.call(event, .now)
    }

    func set(_ call: @escaping @Sendable (SessionEvent, ContinuousClock.Instant) -> Void) {
        receiver.withLock { $0 = Receiver(call: call) }
    }
}
