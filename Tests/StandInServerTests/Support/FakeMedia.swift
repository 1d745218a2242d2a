import DecartProtocol
import StandInServer
import Synchronization
import TestSupport
import WebRTCTransport

/// A media engine that the test controls.
final class FakeMediaEngine: MediaEngine {
    private let made = Mutex<[FakeMediaSession]>([])
    private let ends = Mutex(true)

    /// False: candidate gathering never ends.
    var endsCandidates: Bool {
        get { ends.withLock { $0 } }
        set { ends.withLock { $0 = newValue } }
    }

    var sessions: [FakeMediaSession] { made.withLock { $0 } }

    func makeSession(
        offer: String, painter: FramePainter, faults: FaultPlan,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any MediaSession {
        let session = FakeMediaSession(offer: offer, painter: painter, onEvent: onEvent)
        made.withLock { $0.append(session) }
        onEvent(.answered(sdp: "answer to \(offer)"))
        onEvent(.localCandidate(CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)))
        if endsCandidates { onEvent(.localCandidate(nil)) }
        return session
    }

    func makeViewer(
        offer: String, of viewers: Viewers, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any MediaSession {
        makeSession(
            offer: offer, painter: FramePainter(look: nil, carriesLatencyMarker: false, viewers: viewers) { _ in },
            faults: FaultPlan(), onEvent: onEvent)
    }

    func makeRoomViewer(
        of viewers: Viewers, msid: String, audioMSID: String, takesTrailers: Bool,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any RoomMedia {
        makeRoom(
            painter: FramePainter(look: nil, carriesLatencyMarker: false, viewers: viewers) { _ in }, codec: nil,
            faults: FaultPlan(), msid: msid, audioMSID: audioMSID, isSingle: false, takesTrailers: takesTrailers,
            onEvent: onEvent)
    }

    private let madeRooms = Mutex<[FakeRoomMedia]>([])
    var rooms: [FakeRoomMedia] { madeRooms.withLock { $0 } }

    func makeRoom(
        painter: FramePainter, codec: VideoCodec?, faults: FaultPlan, msid: String, audioMSID: String, isSingle: Bool,
        takesTrailers: Bool, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any RoomMedia {
        let media = FakeRoomMedia(
            msid: msid, audioMSID: audioMSID, isSingle: isSingle, painter: painter, onEvent: onEvent)
        madeRooms.withLock { $0.append(media) }
        guard !isSingle else { return media }
        onEvent(.offered(sdp: "offer 1"))
        onEvent(.localCandidate(CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0), .subscriber))
        onEvent(.localCandidate(CandidateMessage(candidate: "candidate:2", sdpMid: "0", sdpMLineIndex: 0), .subscriber))
        onEvent(.localCandidate(nil, .subscriber))
        return media
    }
}

/// Counts calls of `stop`, which come on the server's threads: a client sees its connection close before.
final class StopCounter: Sendable {
    private let stops = Watched(0)

    var count: Int { stops.value }

    func note() { stops.change { $0 += 1 } }

    /// Waits for the first call. Returns false if there is none, or more than one.
    func isOne() -> Bool { stops.wait(seconds: 20) { $0 > 0 } && count == 1 }
}

/// Fake room media: an offer containing "video" has video, one containing "spare" has m-lines for sending back.
final class FakeRoomMedia: RoomMedia {
    let msid: String
    let audioMSID: String
    let isSingle: Bool
    let painter: FramePainter
    let onEvent: @Sendable (MediaSessionEvent) -> Void
    private let calls = Mutex<[String]>([])
    private let tracks = Mutex<Set<MediaKind>>([])
    let stops = StopCounter()

    init(
        msid: String, audioMSID: String, isSingle: Bool, painter: FramePainter,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        (self.msid, self.audioMSID, self.isSingle) = (msid, audioMSID, isSingle)
        self.painter = painter
        self.onEvent = onEvent
    }

    /// Calls in order.
    var reported: [String] { calls.withLock { $0 } }
    var stopCount: Int { stops.count }
    private func note(_ call: String) { calls.withLock { $0.append(call) } }

    func add(_ faults: [Fault]) { note("faults") }

    func receive(offer: String) {
        note("offer " + offer)
        var lines = RoomLines()
        lines.receiving = Set(MediaKind.allCases.filter { offer.contains($0.rawValue) })
        if isSingle, offer.contains("spare") { lines.sendMids = [.video: "2", .audio: "3"] }
        lines.sending = tracks.withLock { $0 }
        onEvent(.answered(sdp: "answer to " + offer, lines))
    }

    func receive(answer: String) { note("answer " + answer) }

    func moveVideo() { note("move") }

    func restartICE(_ tracks: Set<MediaKind>) {
        note("restart" + (tracks.contains(.video) ? " with video" : ""))
        onEvent(.offered(sdp: "restarted offer"))
    }

    func offer(_ tracks: Set<MediaKind>) {
        note("track" + (tracks.contains(.audio) ? " and sound" : ""))
        self.tracks.withLock { $0 = tracks }
        guard !isSingle else { return }
        onEvent(.offered(sdp: "offer \(reported.count { $0.hasPrefix("track") } + 1)"))
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        note("\(side) \(candidate?.candidate ?? "end")")
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        stops.note()
        completion()
    }

    /// Passes one frame through the painter.
    func paint() {
        try? TestFrame.gradient().withFrame { painter.paint($0) }
    }
}

final class FakeMediaSession: MediaSession {
    let offer: String
    let painter: FramePainter
    let onEvent: @Sendable (MediaSessionEvent) -> Void
    private let calls = Mutex<[String]>([])
    private let candidates = Mutex<[CandidateMessage?]>([])
    private let added = Mutex<[Fault]>([])
    let stops = StopCounter()

    init(offer: String, painter: FramePainter, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void) {
        self.offer = offer
        self.painter = painter
        self.onEvent = onEvent
    }

    var remoteCandidates: [CandidateMessage?] { candidates.withLock { $0 } }
    /// Calls about answers and restarts, in order.
    var reported: [String] { calls.withLock { $0 } }
    var addedFaults: [Fault] { added.withLock { $0 } }
    var stopCount: Int { stops.count }

    func receive(offer: String) { onEvent(.answered(sdp: "answer to later \(offer)")) }
    func receive(answer: String) { calls.withLock { $0.append("answer " + answer) } }
    func restart(_ output: Fault.Output) {
        calls.withLock { $0.append("restart \(output.rawValue)") }
        if output == .offer || output == .newMID { onEvent(.offered(sdp: "own offer")) }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        candidates.withLock { $0.append(candidate) }
    }

    func add(_ faults: [Fault]) {
        added.withLock { $0 += faults }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        stops.note()
        completion()
    }

    /// Passes one frame through the painter.
    func paint() -> [[UInt8]] {
        let image = TestFrame.gradient()
        try? image.withFrame { painter.paint($0) }
        return image.planes
    }
}
