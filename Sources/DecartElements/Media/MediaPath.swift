// The element's side of a media path: encoder and decoder in one bin inside the element, and one or two peer
// connections. It knows the element's input and output, and RTP; it must not know how connections are established.
//
// Every method runs on the session's queue, which may block in GStreamer, unless it says otherwise.
import DecartProtocol
import DecartSession
import GStreamerKit
import LiveKitTransport
import Logging
import MediaPipeline
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
    let loggers: SessionLoggers
    /// Set with `timestamps=capture`.
    var timing: CaptureTiming?
    /// Called for each new encoder, so that the application may configure it.
    let onEncoder: @Sendable (_ encoder: Element, _ followsBitrate: Bool) -> Void
    /// Called for each new target of a path, on the network thread.
    var onTarget: @Sendable (BitrateTarget) -> Void = { _ in }
    /// Called when an encoded input sends too much, on its thread.
    var onOverload: @Sendable (EncodedOverload) -> Void = { _ in }
}

// @unchecked: the fields outside the mutex belong to the session's queue.
final class MediaPath: @unchecked Sendable {
    let host: MediaHost
    let settings: MediaSettings
    private let id: PathID
    /// Runs work on the session's queue.
    let perform: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let onEvent: @Sendable (MediaEvent) -> Void
    private let sendBranch: any SendBranch
    private let receiveBranch: VideoReceiveBranch
    let audio: AudioPath
    private var isSending = false
    private var isReceiving = false
    var isSendingAudio = false
    var isReceivingAudio = false
    /// Set by `init` only.
    private var markers: LatencyMarkers?

    private struct Shared {
        /// Set from `start` to `stop`.
        var bin: Bin?
        /// Set until `stop`. The first one sends, if any does.
        var connections: [PeerConnection] = []
        /// Frames that the element had sent when this path started.
        var sentBefore: UInt64 = 0
        var isOpen = false
        /// The encoder of `send` takes frames.
        var hasEncoder = false
        var isPublished = true
        var muted: Set<MediaKind> = []
        var trackSID: String?
        var isStopped = false
        /// The last counters are in the element's totals.
        var isCounted = false
    }
    /// Held while the input's gate opens or closes, so that both agree.
    private let shared = Mutex(Shared())

    init(
        id: PathID, host: MediaHost, settings: MediaSettings,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        self.id = id
        self.perform = perform
        self.host = host
        self.settings = settings
        self.onEvent = onEvent
        audio = AudioPath(path: id, track: host.audio, perform: perform)
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
                perform { [weak self] in receive(self?.sender?.statistics().roundTripTime) }
            }
        }
    }

    deinit { stop() }

    /// Any thread.
    var traffic: MediaTraffic {
        MediaTraffic(
            sent: host.input.gate.counters.framesSent &- shared.withLock(\.sentBefore),
            received: receiveBranch.receivedFrames, packetsReceived: receiveBranch.receivedPackets)
    }

    /// The first one sends, if any does. Any thread.
    var connections: [PeerConnection] { shared.withLock(\.connections) }

    private var sender: PeerConnection? { shared.withLock(\.connections.first) }

    var bin: Bin? { shared.withLock(\.bin) }

    /// Any thread.
    var codecs: CodecStatistics {
        CodecStatistics(
            codec: sender?.negotiatedCodec, encoder: sendBranch.encoderName, decoder: receiveBranch.decoderName,
            encoding: sendBranch.codingTime, decoding: receiveBranch.codingTime, cpuShare: sendBranch.cpuShare)
    }

    /// Adds the counters of this path's connections to the element's. Any thread.
    /// - Parameter isLast: the connections are about to be closed.
    func count(_ connections: [ConnectionStatistics], isLast: Bool = false) {
        let isCounted = shared.withLock { shared in
            defer { shared.isCounted = shared.isCounted || isLast }
            return shared.isCounted
        }
        guard !isCounted else { return }
        host.totals.count(id, PathCounters(connections.map(\.statistics), codecs), isLast: isLast)
    }

    // MARK: Lifetime

    func start() {
        host.input.gate.setMaximumRate(framesPerSecond: settings.video.framerate)
        let bin = Bin(name: nil)
        bin.suppressSourceAndSinkFlags()
        let sent = host.input.gate.counters.framesSent
        shared.withLock { ($0.bin, $0.sentBefore) = (bin, sent) }
        host.element.unowned.add(bin)
        bin.syncStateWithParent()
    }

    /// Call before the connection negotiates.
    func add(_ connection: PeerConnection) {
        guard let bin else { return connection.close() }
        shared.withLock { $0.connections.append(connection) }
        bin.add(connection.bin)
        connection.bin.syncStateWithParent()
    }

    /// Starts sending audio, and video unless it is withdrawn. Any thread.
    func open() {
        guard !settings.isViewer else { return }
        shared.withLock { shared in
            shared.isOpen = true
            openGateIfReady(shared)
            openAudioGateIfReady(shared)
        }
    }

    /// Lets frames in once the connection is up and the encoder takes them: on a fast network the connection may be up
    /// first, and a frame would be lost.
    private func openGateIfReady(_ shared: Shared) {
        guard shared.isOpen, shared.hasEncoder, shared.isPublished, !shared.muted.contains(.video) else { return }
        host.input.gate.open(path: id)
    }

    private func openAudioGateIfReady(_ shared: Shared) {
        if shared.isOpen, !shared.muted.contains(.audio) { host.audio.gate.open(path: id) }
    }

    /// Sends nothing of these kinds; nothing is negotiated. Frames are dropped or wait, as without a session, and the
    /// first frame after it is a keyframe.
    func setMuted(_ muted: Set<MediaKind>) {
        if !muted.contains(.video), isMuted(.video) { sendBranch.requestKeyframe() }
        let isOther = shared.withLock { shared in
            let before = shared.muted
            shared.muted = muted
            if muted.contains(.video) { host.input.gate.close(path: id) } else { openGateIfReady(shared) }
            if muted.contains(.audio) { host.audio.gate.close(path: id) } else { openAudioGateIfReady(shared) }
            return before != muted
        }
        if isOther { adaptReports() }
    }

    /// Any thread.
    func isMuted(_ kind: MediaKind) -> Bool { shared.withLock { $0.muted.contains(kind) } }

    /// Call after each description that may have added a kind of media.
    func adaptReports() {
        let muted = shared.withLock(\.muted)
        for connection in connections {
            for kind in MediaKind.allCases { connection.setReports(of: kind, areReduced: muted.contains(kind)) }
        }
    }

    /// Publishes or withdraws our video. While it is withdrawn, frames are dropped or wait, as without a session. Any
    /// thread.
    func setPublished(_ isPublished: Bool) {
        shared.withLock { shared in
            guard shared.isPublished != isPublished else { return }
            shared.isPublished = isPublished
            if !isPublished {
                host.input.gate.close(path: id)
            } else {
                openGateIfReady(shared)
            }
        }
    }

    /// True while our video goes to the remote peer. Any thread.
    var isPublished: Bool { shared.withLock { $0.isOpen && $0.isPublished } }

    /// SID of our video track in a room. Any thread.
    var trackSID: String? { shared.withLock(\.trackSID) }

    func set(trackSID: String?) { shared.withLock { $0.trackSID = trackSID } }

    /// Any thread that keeps the element alive.
    func warn(_ text: String) { host.loggers.media.warning("\(text)") }

    func stop() {
        let last = shared.withLock { shared -> Shared? in
            guard !shared.isStopped else { return nil }
            let last = shared
            (shared.isStopped, shared.isOpen, shared.isPublished) = (true, false, false)
            (shared.bin, shared.connections) = (nil, [])
            host.input.gate.close(path: id)
            return last
        }
        guard let last else { return }
        host.audio.gate.close(path: id)
        sendBranch.stop()
        receiveBranch.stop()
        for connection in last.connections { connection.close() }
        sendBranch.close()
        if let bin = last.bin {
            audio.stop(in: bin)
            host.element.unowned.takeOut([bin])
        }
        for connection in last.connections { connection.dismantle() }
        audio.close()
        receiveBranch.close()
        onEvent(.stopped)
    }

    /// Handles a child's error: rebuilds the decoder if that failed, else fails the connection. The pipeline continues.
    /// Any thread.
    func claims(_ message: Message) -> Bool {
        guard let bin, message.isFrom(within: bin) else { return false }
        guard message.kind == .error, let problem = message.problem else { return true }
        host.loggers.media.warning("\(message.sourceName): \(problem.text) \(problem.debug)")
        switch receiveBranch.claims(message) {
        case true?: perform { [weak self] in self?.rebuildDecoder(because: problem.text) }
        case false?: break
        case nil:
            let text = "The element \(message.sourceName) failed: \(problem.text)"
            onEvent(.failed(SessionError(.webRTC, text, stage: .media)))
        }
        return true
    }

    private func rebuildDecoder(because reason: String) {
        guard !shared.withLock(\.isStopped) else { return }
        do {
            guard try !receiveBranch.rebuild() else { return }
            onEvent(
                .failed(SessionError(.webRTC, "The decoder failed three times within 10 s: \(reason)", stage: .media)))
        } catch {
            fail(error)
        }
    }

    /// Size of the decoded frames before scaling. Any thread.
    var receivedSize: (width: Int, height: Int)? { receiveBranch.receivedSize }

    /// RIDs of the simulcast layers that are sent now, highest resolution first. Any thread.
    var sentLayers: [String] { sendBranch.sentLayers }

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
        try receiveBranch.start(codec, from: source, in: bin, markers: markers) { [weak self] isFirst in
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
            [weak self] size in
            guard let self else { return }
            self.host.trackStats.sent(
                size, bytes: self.sender?.bytesSent ?? 0, at: self.host.element.unowned.currentRunningTime)
        }
        shared.withLock { shared in
            shared.hasEncoder = true
            openGateIfReady(shared)
        }
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
