struct GStreamerMediaEngine: MediaEngine {
    let bitrate: Int
    func makeSession(offer: String, painter: FramePainter, onEvent: @escaping @Sendable (MediaEvent) -> Void) -> any MediaSession {
        final class None: MediaSession {
            func addRemoteCandidate(_ candidate: CandidateMessage?) {}
            func stop(completion: @escaping @Sendable () -> Void) { completion() }
        }
        onEvent(.failed("no media"))
        return None()
    }
}
import DecartProtocol
