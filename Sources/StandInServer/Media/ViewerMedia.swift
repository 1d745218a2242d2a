// The media of one viewer, over a direct connection or in a room: the session's painted frames, encoded for this viewer
// alone. Each stream therefore begins with a keyframe, and congestion at one viewer does not affect another.
//
// Threads: everything runs on the queue of `life`, never on the event loop; frames arrive on the thread that painted them.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on the queue of `life` only.
final class ViewerMedia: MediaSession, RoomMedia, @unchecked Sendable {
    enum Event: Sendable {
        case offered(sdp: String)
        case answered(sdp: String)
        case localCandidate(CandidateMessage?)
        case connected
        case failed(String)
    }

    private let life: MediaLifecycle
    private let bitrate: Int
    private let viewers: Viewers
    private let msid: String?
    private let onEvent: @Sendable (Event) -> Void

    // MARK: State (queue)
    private var connection: PeerConnection?
    private var encoder: VideoEncoderBin?
    private var screen: ViewerScreen?

    /// - Parameter msid: `msid` of the track in a room; nil: direct connection.
    init(bitrate: Int, viewers: Viewers, msid: String? = nil, onEvent: @escaping @Sendable (Event) -> Void) {
        life = MediaLifecycle(label: "decart-standin.viewer") { onEvent(.failed($0)) }
        self.bitrate = bitrate
        self.viewers = viewers
        self.msid = msid
        self.onEvent = onEvent
    }

    // MARK: Negotiation

    /// Starts a direct connection.
    func start(answering offer: String) {
        life.work("the offer could not be taken") { [self] in
            let connection = try makeConnection()
            let answer = try connection.createAnswer(to: offer)
            try sendFrames()
            onEvent(.answered(sdp: answer))
        }
    }

    /// Starts in a room: connects the transport first; `offer` adds the track later.
    func start() {
        life.work("the viewer's media could not start") { [self] in
            let connection = try makeConnection()
            onEvent(.offered(sdp: try connection.createOffer()))
        }
    }

    /// Prefers H.264, as the service does.
    func offer(_ tracks: Set<MediaKind>) {
        life.work("the track could not be offered") { [self] in
            guard let connection else { return }
            connection.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: nil,
                codec: VideoCodec.h264.isAvailable ? .h264 : .vp8)
            onEvent(.offered(sdp: try connection.createOffer()))
        }
    }

    func moveVideo() {
        life.work("the video could not move") { [self] in connection?.moveVideo() }
    }

    /// Nothing to do: the session's painted frames resume by themselves.
    func restart(_ output: Fault.Output) {}

    func receive(answer: String) {
        life.work("the answer could not be taken") { [self] in
            guard let connection else { return }
            try connection.setAnswer(answer)
            if connection.sendParameters != nil, encoder == nil { try sendFrames() }
        }
    }

    /// Viewers send no media.
    func receive(offer: String) {}

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        life.work("a candidate could not be taken") { [self] in
            connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        if side == .subscriber { addRemoteCandidate(candidate) }
    }

    /// Media faults act on the session, not on its viewers.
    func add(_ faults: [Fault]) {}

    func stop(completion: @escaping @Sendable () -> Void) {
        life.stop(
            cleanUp: { [self] in
                if let screen {
                    viewers.remove(screen)
                    screen.close()
                }
                (screen, encoder, connection) = (nil, nil, nil)
            }, completion: completion)
    }

    // MARK: Pipeline

    private func makeConnection() throws -> PeerConnection {
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        configuration.acceptsDataChannels = msid != nil
        // In a room the first offer has data channels only.
        configuration.direction = msid == nil ? .sendonly : nil
        configuration.msid = msid
        // Viewers receive no audio. The m-line is inactive instead of rejected, because aiortc puts a rejected m-line
        // on a transport of its own, which never connects.
        configuration.audio = msid == nil ? .inactive : nil
        let connection = try life.connect(configuration) { [weak self] in self?.handle($0) }
        self.connection = connection
        try life.play()
        return connection
    }

    private func sendFrames() throws {
        guard let connection, let parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: bitrate)
        let screen = try ViewerScreen()
        (self.encoder, self.screen) = (encoder, screen)
        life.pipeline.add([screen.queue, encoder.bin])
        try screen.queue.link(encoder.bin)
        try encoder.bin.link("src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        screen.queue.syncStateWithParent()
        try screen.open()
        viewers.add(screen)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate): onEvent(.localCandidate(CandidateMessage(candidate)))
        case .gatheringComplete: onEvent(.localCandidate(nil))
        case .stateChanged(.connected): onEvent(.connected)
        case .stateChanged(.failed(let error)): life.fail(error.message)
        case .bitrateTarget(let target): encoder?.setBitrate(min(target.target, bitrate))
        case .stateChanged, .iceConnected, .remoteBitrateEstimate, .streamArrived, .warning: break
        }
    }
}

/// Passes frames from the session's pipeline into the viewer's and restamps them with the viewer's running time.
// @unchecked: the pad has its own lock; nothing else changes.
final class ViewerScreen: Viewers.Screen, @unchecked Sendable {
    let queue: Element
    private let pad = Pad(name: "painted", direction: .source)

    init() throws {
        queue = try Element(factory: "queue")
        queue.set("leaky", "downstream")
        queue.set("max-size-buffers", 3)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", 0)
    }

    /// Call after `queue` is in the pipeline: adding an element to a bin unlinks it.
    func open() throws {
        guard let sink = queue.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the queue has no sink pad")
        }
        pad.setActive(true)
        try pad.link(sink)
    }

    func show(_ frame: Buffer, _ caps: Caps) {
        guard let now = queue.currentRunningTime else { return }
        let before = pad.currentCaps
        if before == nil {
            pad.push(GStreamerKit.Event.streamStart(id: "standin/viewer", groupID: Event.nextGroupID()))
        }
        if before != caps { pad.push(Event.caps(caps)) }
        if before == nil { pad.push(Event.timeSegment()) }
        frame.pts = now
        frame.dts = nil
        _ = pad.push(frame)
    }

    func close() { pad.setActive(false) }
}
