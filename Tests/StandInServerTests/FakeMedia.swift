import DecartProtocol
import StandInServer
import Synchronization

/// Media that do what the test says.
final class FakeMediaEngine: MediaEngine {
    private let made = Mutex<[FakeMediaSession]>([])

    var sessions: [FakeMediaSession] { made.withLock { $0 } }

    func makeSession(
        offer: String, painter: FramePainter, faults: FaultPlan, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession {
        let session = FakeMediaSession(offer: offer, painter: painter, onEvent: onEvent)
        made.withLock { $0.append(session) }
        onEvent(.answered(sdp: "answer to \(offer)"))
        onEvent(.localCandidate(CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)))
        onEvent(.localCandidate(nil))
        return session
    }
}

final class FakeMediaSession: MediaSession {
    let offer: String
    let painter: FramePainter
    let onEvent: @Sendable (MediaEvent) -> Void
    private let candidates = Mutex<[CandidateMessage?]>([])
    private let added = Mutex<[Fault]>([])
    private let stops = Atomic<Int>(0)

    init(offer: String, painter: FramePainter, onEvent: @escaping @Sendable (MediaEvent) -> Void) {
        self.offer = offer
        self.painter = painter
        self.onEvent = onEvent
    }

    var remoteCandidates: [CandidateMessage?] { candidates.withLock { $0 } }
    var addedFaults: [Fault] { added.withLock { $0 } }
    var stopCount: Int { stops.load(ordering: .relaxed) }

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        candidates.withLock { $0.append(candidate) }
    }

    func add(_ faults: [Fault]) {
        added.withLock { $0 += faults }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        stops.wrappingAdd(1, ordering: .relaxed)
        completion()
    }

    /// One picture through the painter.
    func paint() -> [[UInt8]] {
        let picture = TestPicture.gradient()
        if let frame = picture.frame { painter.paint(frame) }
        return picture.planes
    }
}
