import EventLoopThreads
import ICE

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
