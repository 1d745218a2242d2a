import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import TestSupport
import WebRTCTransport

/// A room machine on virtual time, with its timers. `walk…` brings it to a state; `takeActions` returns the new
/// actions.
struct RoomDriver {
    private(set) var machine: RoomMachine
    private(set) var timers = VirtualTimers<RoomTimer>()
    private var actions: [RoomAction] = []
    private var isRecovering = false
    var recovers = true
    var now: Duration { timers.now }

    /// With two connections; `RoomOneConnectionTests` has one.
    /// - Parameter encodable: codecs that we can send besides H.264.
    init(publishes: Bool = true, encodable: [VideoCodec] = [], at phase: Phase = .idle) {
        var configuration = RoomConfiguration(width: 1280, height: 704, bitrate: 3_500_000, codec: .h264)
        (configuration.prefersOneConnection, configuration.publishes) = (false, publishes)
        configuration.encodable = encodable
        configuration.receivable = [.h264, .vp8]
        configuration.remedies = ["H265": "install a decoder"]
        machine = RoomMachine(configuration: configuration, token: Secret("first"))
        switch phase {
        case .idle: break
        case .publishing: walkToPublishing()
        case .offered: walkToOffered()
        case .connected: walkToConnected()
        case .resuming: walkToResuming()
        }
    }

    init(_ configuration: RoomConfiguration) {
        machine = RoomMachine(configuration: configuration, token: Secret("first"))
    }

    enum Phase { case idle, publishing, offered, connected, resuming }

    // MARK: Events

    mutating func handle(_ request: RoomRequest) { handle(.request(request)) }
    mutating func handle(_ event: RoomSignallingEvent) { handle(.signalling(event)) }
    mutating func handle(_ event: RoomPeerEvent) { handle(.peer(event)) }

    /// A session requests to recover at once.
    mutating func handle(_ event: RoomEvent) {
        var isInterrupted = false
        for action in machine.handle(event, now: now) {
            actions.append(action)
            switch action {
            case .schedule(let timer, let delay): timers.schedule(timer, after: delay)
            case .cancel(let timer): timers.cancel(timer)
            case .report(.recovering): isInterrupted = true
            case .reportResumed: isRecovering = false
            default: break
            }
        }
        guard isInterrupted, !isRecovering else { return }
        isRecovering = true
        if recovers { handle(.recover) }
    }

    mutating func server(_ message: LiveKitSignalResponse.Message) {
        handle(.message(.with { $0.message = message }))
    }

    /// The server knows our track.
    mutating func published(_ cid: String, _ sid: String) {
        server(.trackPublished(.with { ($0.cid, $0.track) = (cid, Self.track(sid)) }))
    }

    mutating func update(_ participants: LiveKitParticipantInfo...) {
        server(.update(.with { $0.participants = participants }))
    }

    mutating func wait(_ duration: Duration) {
        let end = now + duration
        while let timer = timers.next(until: end) { handle(RoomEvent.timerFired(timer)) }
    }

    // MARK: Walks

    static let worker = LiveKitParticipantInfo.with {
        $0.sid = "PA_worker"
        $0.identity = "inference-server-7"
        $0.state = .active
        $0.tracks = [track("TR_out")]
    }

    /// The worker after it has left.
    static let goneWorker = {
        var gone = RoomDriver.worker
        gone.state = .disconnected
        return gone
    }()

    static func track(
        _ sid: String, type: LiveKitTrackType = .video, muted: Bool = false, mimeType: String = ""
    ) -> LiveKitTrackInfo {
        .with {
            $0.sid = sid
            ($0.muted, $0.mimeType) = (muted, mimeType)
            $0.type = type
        }
    }

    static let join = LiveKitJoinResponse.with {
        $0.participant.sid = "PA_me"
        $0.subscriberPrimary = true
        $0.pingInterval = 5
        $0.pingTimeout = 15
        $0.iceServers = [.with { $0.urls = ["turn:turn.example:3478"] }]
    }

    /// The worker is in the room already.
    static let joinWithWorker = {
        var join = RoomDriver.join
        join.otherParticipants = [worker]
        return join
    }()

    mutating func walkToPublishing(_ join: LiveKitJoinResponse = join) {
        handle(.opened)
        server(.join(join))
    }

    mutating func walkToOffered() {
        walkToPublishing()
        server(.trackPublished(.with { $0.cid = "camera" }))
        handle(.offerMade(sdp: "our offer"))
    }

    mutating func walkToConnected() {
        walkToOffered()
        server(.answer(.with { $0.sdp = "their answer" }))
        handle(.peerConnected(.publisher))
        handle(.peerConnected(.subscriber))
    }

    /// Loses the signalling connection, and waits for the server's first message on another one.
    mutating func walkToResuming() {
        walkToConnected()
        published("camera", "TR_in")
        update(Self.worker)
        _ = takeActions()
        handle(.closed(code: 1006, reason: ""))
        handle(.opened)
    }

    /// Another signalling connection opens, and the server accepts the resume.
    mutating func reopen() {
        handle(.opened)
        server(.reconnect(.init()))
    }

    // MARK: Results

    /// The request for a track of the worker, or its end.
    static func subscription(_ sid: String, _ isWanted: Bool) -> RoomAction {
        .send(
            .subscription(
                .with {
                    $0.trackSids = [sid]
                    $0.subscribe = isWanted
                    $0.participantTracks = [.with { ($0.participantSid, $0.trackSids) = ("PA_worker", [sid]) }]
                }))
    }

    /// Returns the actions since the last call, without timers.
    mutating func takeActions() -> [RoomAction] {
        defer { actions = [] }
        return actions.filter {
            switch $0 {
            case .schedule, .cancel: false
            default: true
            }
        }
    }

    mutating func failures() -> [SessionError] {
        takeActions().compactMap { if case .report(.closedByPeer(let error)) = $0 { error } else { nil } }
    }

    mutating func losses() -> [SessionError] {
        takeActions().compactMap { if case .reportLost(let error) = $0 { error } else { nil } }
    }

    mutating func sent() -> [LiveKitSignalRequest.Message] {
        takeActions().compactMap { if case .send(let message) = $0 { message } else { nil } }
    }
}
