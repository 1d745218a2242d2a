// The media of one viewer, over a direct connection or in a room: the session's painted frames, encoded for this viewer
// alone. Each stream therefore begins with a keyframe, and congestion at one viewer does not affect another.
//
// Threads: everything runs on `queue`, never on the event loop; frames arrive on the thread that painted them.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on `queue` only.
final class ViewerMedia: MediaSession, RoomMedia, @unchecked Sendable {
    enum Event: Sendable {
        case offered(sdp: String)
        case answered(sdp: String)
        case localCandidate(CandidateMessage?)
        case connected
        case failed(String)
    }

    private let queue = DispatchQueue(label: "decart-standin.viewer")
    private let bitrate: Int
    private let viewers: Viewers
    private let msid: String?
    private let onEvent: @Sendable (Event) -> Void

    // MARK: State (`queue`)
    private var pipeline: Pipeline?
    private var connection: PeerConnection?
    private var encoder: VideoEncoderBin?
    private var screen: ViewerScreen?
    private var busTimer: (any DispatchSourceTimer)?
    private var isOver = false

    /// - Parameter msid: `msid` of the track in a room; nil: direct connection.
    init(bitrate: Int, viewers: Viewers, msid: String? = nil, onEvent: @escaping @Sendable (Event) -> Void) {
        self.bitrate = bitrate
        self.viewers = viewers
        self.msid = msid
        self.onEvent = onEvent
    }

    // MARK: Negotiation

    /// Starts a direct connection.
    func start(answering offer: String) {
        work("the offer could not be taken") { [self] in
            let connection = try makeConnection()
            let answer = try connection.createAnswer(to: offer)
            try sendFrames()
            onEvent(.answered(sdp: answer))
        }
    }

    /// Starts in a room: connects the transport first; `offer` adds the track later.
    func start() {
        work("the viewer's media could not start") { [self] in
            let connection = try makeConnection()
            onEvent(.offered(sdp: try connection.createOffer()))
        }
    }

    /// Prefers H.264, as the service does.
    func offer(_ tracks: Set<MediaKind>) {
        work("the track could not be offered") { [self] in
            guard let connection else { return }
            connection.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: nil,
                codec: VideoCodec.h264.isAvailable ? .h264 : .vp8)
            onEvent(.offered(sdp: try connection.createOffer()))
        }
    }

    func moveVideo() {
        queue.async { [self] in connection?.moveVideo() }
    }

    /// Nothing to do: the session's painted frames resume by themselves.
    func restart(_ output: Fault.Output) {}

    func receive(answer: String) {
        work("the answer could not be taken") { [self] in
            guard let connection else { return }
            try connection.setAnswer(answer)
            if connection.sendParameters != nil, encoder == nil { try sendFrames() }
        }
    }

    /// Viewers send no media.
    func receive(offer: String) {}

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        queue.async { [self] in connection?.addRemoteCandidate(candidate.map(ICECandidate.init)) }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        if side == .subscriber { addRemoteCandidate(candidate) }
    }

    /// Media faults act on the session, not on its viewers.
    func add(_ faults: [Fault]) {}

    func stop(completion: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isOver = true
            tearDown()
            completion()
        }
    }

    // MARK: Pipeline

    private func makeConnection() throws -> PeerConnection {
        GStreamerRuntime.initialise()
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        configuration.acceptsDataChannels = msid != nil
        // In a room the first offer has data channels only.
        configuration.direction = msid == nil ? .sendonly : nil
        configuration.msid = msid
        // Viewers receive no audio. The m-line is inactive instead of rejected, because aiortc puts a rejected m-line
        // on a transport of its own, which never connects.
        configuration.audio = msid == nil ? .inactive : nil
        // Candidates arrive while the description is still being created; `queue` delivers them after it.
        let connection = try PeerConnection(configuration: configuration) { [weak self] event in
            guard let self else { return }
            self.queue.async { self.handle(event) }
        }
        self.connection = connection
        let pipeline = Pipeline()
        self.pipeline = pipeline
        pipeline.add(connection.bin)
        guard pipeline.setState(.playing) != .failure else {
            throw PeerConnectionError(.wrongState, "the pipeline does not start")
        }
        busTimer = pipeline.watchBus(on: queue) { [weak self] words in self?.fail(words) }
        return connection
    }

    private func sendFrames() throws {
        guard let connection, let parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: bitrate)
        let screen = try ViewerScreen()
        (self.encoder, self.screen) = (encoder, screen)
        pipeline?.add([screen.queue, encoder.bin])
        try screen.queue.link(encoder.bin)
        try encoder.bin.link("src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        screen.queue.syncStateWithParent()
        try screen.open()
        viewers.add(screen)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent) {
        guard !isOver else { return }
        switch event {
        case .localCandidate(let candidate): onEvent(.localCandidate(CandidateMessage(candidate)))
        case .gatheringComplete: onEvent(.localCandidate(nil))
        case .stateChanged(.connected): onEvent(.connected)
        case .stateChanged(.failed(let error)): fail(error.message)
        case .bitrateTarget(let target): encoder?.setBitrate(min(target.target, bitrate))
        case .stateChanged, .iceConnected, .remoteBitrateEstimate, .streamArrived, .warning: break
        }
    }

    private func work(_ failure: String, _ body: @escaping @Sendable () throws -> Void) {
        queue.async { [self] in
            guard !isOver else { return }
            do {
                try body()
            } catch {
                fail("\(failure): \(error)")
            }
        }
    }

    /// Reports the first failure only; later ones are its consequences.
    private func fail(_ words: String) {
        guard !isOver else { return }
        isOver = true
        onEvent(.failed(words))
    }

    /// Follows the order that `PeerConnection` requires: close, bin to NULL, remove from the pipeline, dismantle.
    private func tearDown() {
        busTimer?.cancel()
        busTimer = nil
        if let screen { viewers.remove(screen) }
        connection?.close()
        screen?.close()
        pipeline?.setState(.null)
        if let connection {
            pipeline?.remove(connection.bin)
            connection.dismantle()
        }
        (screen, encoder, connection, pipeline) = (nil, nil, nil, nil)
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
