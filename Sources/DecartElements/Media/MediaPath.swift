// The element's side of a media path: encoder and decoder in one bin inside the element, and one or two peer
// connections. It knows the element's input and output, and RTP; it must not know how connections are established.
//
// Every method runs on the session's queue, which may block in GStreamer, unless it says otherwise.
import DecartProtocol
import DecartSession
import GStreamerKit
import LiveKitTransport
import Log
import MediaPipeline
import RTP
import Synchronization
import WebRTCTransport

/// Parts of the element that a media path uses.
struct MediaHost: Sendable {
    let element: ElementHandle
    let input: InputChain
    let output: VideoOutput
    let audio: AudioTrack
    let trackStats: VideoTrackStats
    let totals: ElementTotals
    private(set) var loggers: SessionLoggers
    /// Set for a session.
    private(set) var redactor: RunRedactor?
    /// Set with `timestamps=capture`.
    var timing: CaptureTiming?
    /// Called for each new encoder, so that the application may configure it.
    let onEncoder: @Sendable (_ encoder: Element, _ followsBitrate: Bool) -> Void
    /// Called for each new target of a path, on the network thread.
    var onTarget: @Sendable (BitrateTarget) -> Void = { _ in }
    /// Called when an encoded input sends too much, on its thread.
    var onOverload: @Sendable (EncodedOverload) -> Void = { _ in }

    func guarded(by redactor: RunRedactor) -> MediaHost {
        var guarded = self
        (guarded.loggers, guarded.redactor) = (loggers.guarded(by: redactor), redactor)
        return guarded
    }
}

// @unchecked: the fields outside the mutex belong to the session's queue.
final class MediaPath: @unchecked Sendable {
    let host: MediaHost
    let settings: MediaSettings
    private let id: PathID
    /// The session's queue.
    let scheduler: any SessionScheduler
    /// Any thread.
    let onEvent: @Sendable (MediaEvent) -> Void
    private let sendBranch: any SendBranch
    private let receiveBranch: VideoReceiveBranch
    let audio: AudioPath
    private var isSending = false
    private var isReceiving = false
    var isSendingAudio = false
    var isReceivingAudio = false
    /// Set by `init` only.
    private var markers: LatencyMarkers?

    private struct Shared: Sendable {
        /// Set by `start`.
        var bin: Bin?
        /// Set until `stop`. The first one sends, if any does, and the last one receives.
        var connections: [(name: String, connection: PeerConnection)] = []
        /// Frames that the element had sent when this path started.
        var sentBefore: UInt64 = 0
        var sending = SendState()
        /// Changed ones; nil: those of the settings.
        var limits: VideoLimits?
        var trackSID: String?

        var sender: PeerConnection? { connections.first?.connection }
    }
    private let shared = StateLock(Shared())
    /// All of one moment.
    private var now: Shared { shared.read(\.self) }

    init(
        id: PathID, host: MediaHost, settings: MediaSettings, scheduler: any SessionScheduler,
        onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        self.id = id
        self.scheduler = scheduler
        self.host = host
        self.settings = settings
        self.onEvent = onEvent
        audio = AudioPath(
            path: id, track: host.audio, isDiscontinuous: settings.sendsAudioDiscontinuously,
            perform: { scheduler.async($0) })
        receiveBranch = VideoReceiveBranch(
            path: id, output: host.output, followsReceived: settings.followsReceived,
            encoding: settings.encoding, logger: host.loggers.media)
        sendBranch =
            if let format = settings.encodedInput {
                EncodedSendBranch(
                    path: id, input: host.input, codec: format.codec, framerate: settings.video.framerate,
                    onOverload: host.onOverload)
            } else {
                VideoSendBranch(
                    path: id, input: host.input, settings: settings.video, receiving: receiveBranch.busy,
                    logger: host.loggers.media)
            }
        if let timing = host.timing {
            markers = LatencyMarkers(path: id, timing: timing) { [weak self] receive in
                scheduler.async { [weak self] in receive(self?.now.sender?.statistics().roundTripTime) }
            }
        }
    }

    deinit { stop() }

    /// Any thread.
    var traffic: MediaTraffic {
        // Packets count as they arrive: behind a gap they wait for retransmissions before they reach the decoder.
        let now = now
        let arrived = now.connections.last?.connection.statistics()
        return MediaTraffic(
            sent: host.input.gate.counters.framesSent &- now.sentBefore,
            received: receiveBranch.receivedFrames, packetsReceived: arrived?.packetsReceived ?? 0,
            packetsLost: UInt64(clamping: arrived?.rtp.packetsLost ?? 0),
            oversizedFrames: arrived?.rtp.oversizedFrames ?? 0)
    }

    /// With their names in statistics. The first one sends, if any does, and the last one receives. Any thread.
    var connections: [(name: String, connection: PeerConnection)] { now.connections }

    var bin: Bin? {
        let now = now
        return now.sending.isStopped ? nil : now.bin
    }

    /// Any thread.
    var codecs: CodecStatistics {
        let sending = sendBranch.status
        return CodecStatistics(
            codec: now.sender?.negotiatedCodec, encoder: sending.encoder, decoder: receiveBranch.decoderName,
            encoding: sending.codingTime, decoding: receiveBranch.codingTime, cpuShare: sending.cpuShare)
    }

    /// See `VideoCodec.qualityFloor`. Any thread.
    var qualityFloor: Int {
        let now = now
        return (now.sender?.negotiatedCodec ?? settings.connection.codec).qualityFloor(
            settings.video.size.current, framerate: now.limits?.framerate ?? settings.video.framerate)
    }

    /// Changes the limits of the sent video.
    func setLimits(_ limits: VideoLimits) {
        let connections = shared.withLock { shared in
            shared.limits = limits
            return shared.connections
        }
        host.input.gate.setMaximumRate(framesPerSecond: limits.framerate)
        sendBranch.setFramerate(limits.framerate)
        for (_, connection) in connections { connection.setBitrateRange(limits.bitrates) }
    }

    /// Adds the counters of this path's connections to the element's. Any thread.
    /// - Parameter isLast: the connections are about to be closed.
    func count(_ connections: [ConnectionStatistics], isLast: Bool = false) {
        host.totals.count(id, PathCounters(connections.map(\.statistics), codecs), isLast: isLast)
    }

    // MARK: Lifetime

    func start() {
        host.input.gate.setMaximumRate(framesPerSecond: settings.video.framerate)
        let bin = Bin(name: nil)
        bin.suppressSourceAndSinkFlags()
        let sent = host.input.gate.counters.framesSent
        shared.withLock { ($0.bin, $0.sentBefore) = (bin, sent) }
        host.totals.begin(id)
        host.element.unowned.add(bin)
        bin.syncStateWithParent()
    }

    /// Call before the connection has media.
    /// - Parameter name: as in `stats`.
    func add(_ connection: PeerConnection, as name: String) {
        let (bin, limits) = shared.withLock { shared -> (Bin?, VideoLimits?) in
            guard !shared.sending.isStopped, let bin = shared.bin else { return (nil, nil) }
            shared.connections.append((name, connection))
            return (bin, shared.limits)
        }
        guard let bin else { return connection.close() }
        if let limits { connection.setBitrateRange(limits.bitrates) }
        bin.add(connection.bin)
        connection.bin.syncStateWithParent()
    }

    /// Starts sending audio, and video unless it is withdrawn. Any thread; a connection may be up only after `stop`.
    func open() {
        if !settings.isViewer { apply(.connected) }
    }

    /// Opens or closes the gates of the inputs under the lock, so that they agree with the state.
    /// - Returns: what was before.
    @discardableResult private func apply(_ event: SendState.Event) -> Shared {
        shared.withLock { shared in
            let before = shared
            shared.sending.handle(event)
            if shared.sending.isStopped { shared.connections = [] }
            let (sending, sent) = (shared.sending, before.sending)
            if sending.sendsVideo != sent.sendsVideo { set(host.input.gate, isOpen: sending.sendsVideo) }
            if sending.sendsAudio != sent.sendsAudio { set(host.audio.gate, isOpen: sending.sendsAudio) }
            return before
        }
    }

    private func set(_ gate: InputGate, isOpen: Bool) {
        if isOpen { gate.open(path: id) } else { gate.close(path: id) }
    }

    /// Sends nothing of these kinds; nothing is negotiated. Frames are dropped or wait, as without a session, and the
    /// first frame after it is a keyframe.
    func setMuted(_ muted: Set<MediaKind>) {
        if !muted.contains(.video), isMuted(.video) { sendBranch.requestKeyframe() }
        if apply(.muted(muted)).sending.muted != muted { adaptReports() }
    }

    /// Any thread.
    func isMuted(_ kind: MediaKind) -> Bool { now.sending.muted.contains(kind) }

    /// Call after each description that may have added a kind of media.
    func adaptReports() {
        let now = now
        for (_, connection) in now.connections {
            for kind in MediaKind.allCases {
                connection.setReports(of: kind, areReduced: now.sending.muted.contains(kind))
            }
        }
    }

    /// Publishes or withdraws our video. While it is withdrawn, frames are dropped or wait, as without a session. Any
    /// thread.
    func setPublished(_ isPublished: Bool) { apply(.published(isPublished)) }

    /// State of our video track, unless it is withdrawn, and its SID in a room. Any thread.
    var publication: (state: VideoTrackStats.Publication, sid: String?) {
        let now = now
        let isMuted = now.sending.muted.contains(.video)
        return (isMuted ? .muted : now.sending.isShown ? .published : .publishing, now.trackSID)
    }

    func set(trackSID: String?) { shared.withLock { $0.trackSID = trackSID } }

    /// The layers of our video, by RID, that participants of the room receive.
    func setWanted(_ rids: Set<String>) {
        apply(.wanted(!rids.isEmpty))
        sendBranch.setWanted(rids)
    }

    /// False if the room says that no participant receives our video. Any thread.
    var isWanted: Bool { now.sending.isWanted }

    /// Any thread that keeps the element alive.
    func warn(_ text: String) { host.loggers.media.warning(text) }

    func stop() {
        let last = apply(.stopped)
        guard !last.sending.isStopped else { return }
        sendBranch.stop()
        receiveBranch.stop()
        for (_, connection) in last.connections { connection.close() }
        sendBranch.close()
        if let bin = last.bin {
            audio.stop(in: bin)
            host.element.unowned.takeOut([bin])
        }
        for (_, connection) in last.connections { connection.dismantle() }
        audio.close()
        receiveBranch.close()
        onEvent(.stopped)
    }

    /// Handles a child's error: rebuilds the decoder if that failed, else fails the connection. The pipeline continues, also
    /// if an element fails while it is taken down. Any thread.
    func claims(_ message: Message) -> Bool {
        let now = now
        guard let bin = now.bin, message.isFrom(within: bin) else { return false }
        guard !now.sending.isStopped, message.kind == .error, let problem = message.problem else { return true }
        host.loggers.media.warning("\(message.sourceName): \(problem.text) \(problem.debug)")
        switch receiveBranch.claims(message) {
        case true?: scheduler.async { [weak self] in self?.rebuildDecoder(because: problem.text) }
        case false?: break
        case nil:
            let text = "The element \(message.sourceName) failed: \(problem.text)"
            onEvent(.failed(SessionError(.webRTC, text, stage: .media)))
        }
        return true
    }

    private func rebuildDecoder(because reason: String) {
        do {
            guard try !receiveBranch.rebuild() else { return }
            onEvent(
                .failed(SessionError(.webRTC, "The decoder failed three times within 10 s: \(reason)", stage: .media)))
        } catch {
            fail(error)
        }
    }

    /// Another codec arrives than before.
    private func changeDecoder() {
        do { try receiveBranch.changeCodec() } catch { fail(error) }
    }

    /// Size of the decoded frames before scaling. Any thread.
    var receivedSize: (width: Int, height: Int)? { receiveBranch.receivedSize }

    /// RIDs of the simulcast layers that are sent now, highest resolution first. Any thread.
    var sentLayers: [String] { sendBranch.status.layers }

    /// The service may wait for a keyframe of ours too.
    func requestKeyframe() {
        receiveBranch.requestKeyframe()
        sendBranch.requestKeyframe()
    }

    // MARK: Building

    /// Builds the decoder behind a connection that has negotiated its codec, once.
    func receive(from connection: PeerConnection) throws {
        guard !isReceiving, let bin, let codec = connection.negotiatedCodec,
            let source = connection.bin.staticPad("rtp_src")
        else { return }
        isReceiving = true
        adaptReports()
        try receiveBranch.start(
            codec, from: source, in: bin, markers: markers,
            onCodec: { [weak self, scheduler] in scheduler.async { [weak self] in self?.changeDecoder() } }
        ) { [weak self] isFirst in
            guard let self else { return }
            self.host.trackStats.received(at: self.host.element.unowned.currentRunningTime)
            if isFirst { self.onEvent(.firstFrame) }
        }
    }

    /// Builds the encoder in front of a connection that has negotiated its send parameters, once.
    func send(through connection: PeerConnection) throws {
        guard !isSending, let bin, let parameters = connection.sendParameters,
            let sink = connection.bin.staticPad("rtp_sink")
        else { return }
        isSending = true
        adaptReports()
        try sendBranch.start(parameters, to: sink, in: bin, markers: markers, onEncoder: host.onEncoder) {
            [weak connection, host] size in
            host.trackStats.sent(
                size, bytes: connection?.bytesSent ?? 0, at: host.element.unowned.currentRunningTime)
        }
        apply(.encoderReady)
    }

    /// The room carries trailers with the times of our frames, or does not.
    func useTrailers(_ isOn: Bool) { markers?.useTrailers(isOn) }

    /// Any thread.
    func apply(target: BitrateTarget) {
        sendBranch.apply(target: target)
        host.onTarget(target)
    }

    /// Any thread.
    func fail(_ error: any Error) {
        let problem: SessionError
        switch error {
        case let error as SessionError:
            problem = error
        case let error as PeerConnectionError:
            problem = SessionError(error)
        case let error as GStreamerError:
            problem = SessionError(
                .invalidOptions, "\(error.message.capitalizedFirst).", stage: .media, isPermanent: true)
        default:
            problem = SessionError(.webRTC, "The media path failed.", stage: .media)
        }
        onEvent(.failed(problem))
    }
}
