import DecartProtocol
import RTP
import StandInServer
import Synchronization
import TestSupport
import WebRTCTransport

/// A media engine that the test controls.
final class FakeMediaEngine: MediaEngine {
    private let made = Mutex<[FakeMedia]>([])
    private let ends = Mutex(true)

    /// False: candidate gathering never ends.
    var endsCandidates: Bool {
        get { ends.withLock { $0 } }
        set { ends.withLock { $0 = newValue } }
    }

    /// Media of direct connections.
    var sessions: [FakeMedia] { made.withLock { $0.filter { $0.room == nil } } }
    var rooms: [FakeMedia] { made.withLock { $0.filter { $0.room != nil } } }

    func makeMedia(
        painter: FramePainter, faults: FaultPlan, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia {
        let media = FakeMedia(painter: painter, room: room, endsCandidates: endsCandidates, onEvent: onEvent)
        made.withLock { $0.append(media) }
        guard let room, !room.isSingle else { return media }
        onEvent(.offered(sdp: "offer 1"))
        for candidate in ["candidate:1", "candidate:2"] {
            onEvent(
                .localCandidate(CandidateMessage(candidate: candidate, sdpMid: "0", sdpMLineIndex: 0), .subscriber))
        }
        onEvent(.localCandidate(nil, .subscriber))
        return media
    }

    func makeViewer(
        of viewers: Viewers, room: RoomTracks?, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia {
        makeMedia(
            painter: FramePainter(look: nil, carriesLatencyMarker: false, viewers: viewers) { _ in },
            faults: FaultPlan(), room: room, onEvent: onEvent)
    }
}

/// Fake media. In a room, an offer containing "video" has video, one containing "spare" has m-lines for sending back.
final class FakeMedia: SessionMedia {
    let painter: FramePainter
    /// Nil: a direct connection.
    let room: RoomTracks?
    let onEvent: @Sendable (MediaSessionEvent) -> Void
    private let endsCandidates: Bool
    private let calls = Mutex<[String]>([])
    private let offers = Mutex<[String]>([])
    private let candidates = Mutex<[CandidateMessage?]>([])
    private let added = Mutex<[Fault]>([])
    private let tracks = Mutex<[OutputTrack]>([])
    /// Calls of `stop`, which come on the server's threads: a client sees its connection close before.
    private let stops = Watched(0)

    init(
        painter: FramePainter, room: RoomTracks?, endsCandidates: Bool,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        (self.painter, self.room, self.endsCandidates, self.onEvent) = (painter, room, endsCandidates, onEvent)
    }

    /// Calls about answers, restarts and tracks, in order; in a room also about offers, candidates and faults.
    var reported: [String] { calls.withLock { $0 } }
    /// The first offer.
    var offer: String { offers.withLock { $0.first ?? "" } }
    var remoteCandidates: [CandidateMessage?] { candidates.withLock { $0 } }
    var addedFaults: [Fault] { added.withLock { $0 } }
    var stopCount: Int { stops.value }

    /// Waits for the first call of `stop`. Returns false if there is none, or more than one.
    func isStoppedOnce() -> Bool { stops.wait(seconds: 20) { $0 > 0 } && stopCount == 1 }

    private func note(_ call: String) { calls.withLock { $0.append(call) } }

    func add(_ faults: [Fault]) {
        if room != nil { note("faults") }
        added.withLock { $0 += faults }
    }

    func perform(_ request: MediaRequest) {
        switch request {
        case .receiveOffer(let sdp, _): receive(offer: sdp)
        case .receiveAnswer(let sdp): note("answer " + sdp)
        case .addCandidate(let candidate, let side):
            if room != nil { note("\(side) \(candidate?.candidate ?? "end")") }
            candidates.withLock { $0.append(candidate) }
        case .restart(let output): restart(output)
        case .offer(let tracks): offer(tracks)
        case .restartICE(let tracks): restartICE(tracks)
        case .moveVideo: note("move")
        case .changeCodec(let codec): note("codec \(codec.name)")
        case .requestKeyframe: note("keyframe")
        case .close: note("close")
        }
    }

    private func receive(offer: String) {
        let isFirst = offers.withLock { offers in
            offers.append(offer)
            return offers.count == 1
        }
        guard let room else {
            onEvent(.answered(sdp: "answer to \(isFirst ? "" : "later ")\(offer)"))
            guard isFirst else { return }
            onEvent(.localCandidate(CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)))
            if endsCandidates { onEvent(.localCandidate(nil)) }
            return
        }
        note("offer " + offer)
        var lines = RoomLines()
        lines.receiving = Set(MediaKind.allCases.filter { offer.contains($0.rawValue) })
        if room.isSingle, offer.contains("spare") { lines.sendMids = [.video: "2", .audio: "3"] }
        if lines.receiving.contains(.video) {
            lines.published["camera-1"] = RoomLines.Published(mid: "0", codec: "VP8")
        }
        lines.sending = Set(tracks.withLock { $0 }.map(\.kind))
        onEvent(.answered(sdp: "answer to " + offer, lines))
    }

    private func restart(_ output: Fault.Output) {
        note("restart \(output.rawValue)")
        if output == .offer || output == .newMID { onEvent(.offered(sdp: "own offer")) }
    }

    private func restartICE(_ tracks: [OutputTrack]) {
        note("restart" + (tracks.contains { $0.kind == .video } ? " with video" : ""))
        onEvent(.offered(sdp: "restarted offer"))
    }

    private func offer(_ tracks: [OutputTrack]) {
        note("track" + (tracks.contains { $0.kind == .audio } ? " and sound" : ""))
        self.tracks.withLock { $0 = tracks }
        guard room?.isSingle == false else { return }
        onEvent(.offered(sdp: "offer \(reported.count { $0.hasPrefix("track") } + 1)"))
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        stops.change { $0 += 1 }
        completion()
    }

    /// Passes one frame through the painter.
    @discardableResult
    func paint() -> [[UInt8]] {
        let image = TestFrame.gradient()
        try? image.withFrame { painter.paint($0) }
        return image.planes
    }
}
