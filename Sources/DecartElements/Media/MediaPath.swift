// The element's side of a media path: encoder and decoder in one bin inside the element, and one or two peer
// connections. It knows the element's input and output, and RTP; it must not know how connections are established.
//
// Every method runs on the session's queue, which may block in GStreamer, unless it says otherwise.
import DecartProtocol
import DecartSession
import GStreamerKit
import LiveKitTransport
import Signalling
import Synchronization
import WebRTCTransport

/// Parts of the element that a media path uses.
struct MediaHost: Sendable {
    let element: ElementHandle
    let input: InputChain
    let output: VideoOutput
    let audio: AudioTrack
    let facts: VideoTrackStats
    let log: DebugCategory
    /// Set with `timestamps=capture`.
    var timing: CaptureTiming?
    /// Called for each new encoder, so that the application may configure it.
    let onEncoder: @Sendable (Element) -> Void
}

/// Size of the frames that are sent; it changes when the input's orientation or the transport becomes known.
final class CurrentFrameSize: Sendable {
    private let value: Mutex<(width: Int, height: Int)>
    init(width: Int, height: Int) { value = Mutex((width, height)) }
    var current: (width: Int, height: Int) { value.withLock { $0 } }
    func set(width: Int, height: Int) { value.withLock { $0 = (width, height) } }
}

struct MediaSettings: Sendable {
    var format = VideoFormat(width: 0, height: 0, framerate: 0)
    var connection = PeerConnectionConfiguration()
    var size: CurrentFrameSize
    var framerate: Int
    /// Bitrate at the start, bit/s; congestion control sets it from then on.
    var bitrate: Int
    var encoder: String
    var followsReceived: Bool
    /// Set in rooms only.
    var simulcast = false
    /// True for a viewer, which sends nothing.
    var isViewer = false
    var label = TrackLabel()
    /// Set in rooms only.
    var room: RoomAccess?

    /// Simulcast layers, highest resolution first; empty: one stream.
    var layers: [SimulcastLayer] {
        guard simulcast else { return [] }
        let size = size.current
        return SimulcastLayer.layers(width: size.width, height: size.height)
    }

    func allocation(of layers: [SimulcastLayer]) -> SimulcastAllocation {
        let size = size.current
        return SimulcastAllocation(layers, width: size.width, height: size.height, frameRate: Double(framerate))
    }
}

/// Settings for joining a room, besides the URL and the token that the service sends.
struct RoomAccess: Sendable {
    var trust: TLSTrust
    var allowsInsecure: Bool
    var openTimeout: Duration
    /// Uses one peer connection for both directions if the server supports it.
    var prefersSingle: Bool
}

/// Interface of a media path to the element.
protocol ElementMedia: MediaTransport {
    var statistics: PeerConnectionStatistics? { get }
    /// True if the message comes from the media path, which then handles it itself.
    func claims(_ message: Message) -> Bool
    /// Size of the decoded frames before scaling.
    var receivedSize: (width: Int, height: Int)? { get }
    /// True while our video track goes to the remote peer.
    var isPublished: Bool { get }
    /// RIDs of the simulcast layers that are sent now, highest resolution first; empty: one stream.
    var sentLayers: [String] { get }
    /// SID of our video track in a room.
    var trackSID: String? { get }
    /// Turns audio on or off in both directions; the video never stops for it. Called on the session's queue, any
    /// number of times between start and stop; the value is kept if there is no connection yet.
    func setAudio(_ isWanted: Bool)
    /// Publishes our video track or withdraws it, under the same rules as `setAudio`. The session and its output go on
    /// without the track.
    func setVideoPublished(_ isPublished: Bool)
}

// @unchecked: fields belong to the session's queue; those that other threads use are atomic or in a mutex.
final class MediaPath: @unchecked Sendable {
    let host: MediaHost
    let settings: MediaSettings
    private let onEvent: @Sendable (MediaEvent) -> Void
    private var connections: [PeerConnection] = []
    private(set) var bin: Bin?
    let audio: AudioPath
    private var decoded: Pad?
    private var encoderInput: Pad?
    /// Frames that the element had sent when this path started.
    private let sentBefore = Atomic<UInt64>(0)
    private let received = Atomic<UInt64>(0)
    private let firstFrame = Atomic(false)
    private let stopped = Atomic(false)
    // Available to other threads until `stop`. `shared` is the connection that sends.
    private let shared = Mutex<PeerConnection?>(nil)
    private let owned = Mutex<Bin?>(nil)
    private let receiver = Mutex<ReceiveChain?>(nil)
    private let simulcast = Mutex<SimulcastEncoderBin?>(nil)
    private let isRebuilding = Atomic(false)
    /// Stays locked while the gate opens or closes, so that both agree.
    private let sending = Mutex((isOpen: false, isPublished: true))
    private var rebuilds: [ContinuousClock.Instant] = []
    private let rate = Mutex(Rate())
    /// Set by `init` only.
    private var markers: LatencyMarkers?

    /// Generation of this path: higher for a newer attempt.
    private let attempt: Int

    /// Runs work on the session's queue.
    let perform: @Sendable (@escaping @Sendable () -> Void) -> Void

    init(
        attempt: Int, host: MediaHost, settings: MediaSettings,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        self.attempt = attempt
        self.perform = perform
        self.host = host
        self.settings = settings
        self.onEvent = onEvent
        audio = AudioPath(attempt: attempt, track: host.audio)
        if let timing = host.timing {
            markers = LatencyMarkers(attempt: attempt, timing: timing) { [weak self] take in
                perform { [weak self] in take(self?.sender?.statistics().roundTripTime) }
            }
        }
    }

    deinit { stop() }

    /// Any thread.
    var traffic: MediaTraffic {
        MediaTraffic(
            sent: host.input.gate.counters.framesSent &- sentBefore.load(ordering: .relaxed),
            received: received.load(ordering: .relaxed))
    }

    /// The connection that sends. Any thread.
    var sender: PeerConnection? { shared.withLock { $0 } }

    // MARK: Lifetime

    func start() {
        sentBefore.store(host.input.gate.counters.framesSent, ordering: .relaxed)
        host.input.gate.setMaximumRate(framesPerSecond: settings.framerate)
        let bin = Bin(name: nil)
        bin.suppressSourceAndSinkFlags()
        self.bin = bin
        owned.withLock { $0 = bin }
        host.element.unowned.add(bin)
        bin.syncStateWithParent()
    }

    /// Call before the connection negotiates.
    func add(_ connection: PeerConnection) {
        guard let bin else { return connection.close() }
        connections.append(connection)
        if connections.count == 1 { shared.withLock { $0 = connection } }
        bin.add(connection.bin)
        connection.bin.syncStateWithParent()
    }

    /// Starts sending audio, and video unless it is withdrawn. Any thread.
    func open() {
        guard !settings.isViewer else { return }
        host.audio.gate.open(attempt: attempt)
        sending.withLock { sending in
            sending.isOpen = true
            if sending.isPublished { host.input.gate.open(attempt: attempt) }
        }
    }

    /// Publishes or withdraws our video. While it is withdrawn, frames are dropped or wait, as without a session. Any
    /// thread.
    func setPublished(_ isPublished: Bool) {
        sending.withLock { sending in
            guard sending.isPublished != isPublished else { return }
            sending.isPublished = isPublished
            if !isPublished {
                host.input.gate.close(attempt: attempt)
            } else if sending.isOpen {
                host.input.gate.open(attempt: attempt)
            }
        }
    }

    /// True while our video goes to the remote peer. Any thread.
    var isPublished: Bool { sending.withLock { $0.isOpen && $0.isPublished } }

    /// Any thread that keeps the element alive.
    func warn(_ text: String) { host.log(.warning, host.element.unowned, text) }

    func stop() {
        guard !stopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        host.audio.gate.close(attempt: attempt)
        sending.withLock { sending in
            (sending.isOpen, sending.isPublished) = (false, false)
            host.input.gate.close(attempt: attempt)
        }
        host.input.removeDelivery(attempt: attempt)
        host.output.removeInput(attempt: attempt)
        host.input.setScale(.full)
        host.input.gate.setMaximumRate(framesPerSecond: settings.framerate)
        shared.withLock { $0 = nil }
        owned.withLock { $0 = nil }
        simulcast.withLock { $0 = nil }
        for connection in connections { connection.close() }
        encoderInput?.setActive(false)
        stopAudio()
        if let bin {
            // Locked because the parent could otherwise raise its state again meanwhile.
            bin.setLockedState(true)
            bin.setState(.null)
            host.element.unowned.remove(bin)
        }
        for connection in connections { connection.dismantle() }
        audio.close()
        receiver.withLock { chain in
            chain?.stop()
            chain = nil
        }
        decoded?.setActive(false)
        (connections, bin, decoded, encoderInput) = ([], nil, nil, nil)
        onEvent(.stopped)
    }

    /// Handles a child's error: rebuilds the decoder if that failed, else fails the connection. The pipeline goes on.
    /// Any thread.
    func claims(_ message: Message) -> Bool {
        guard let bin = owned.withLock({ $0 }), message.isFrom(within: bin) else { return false }
        guard message.kind == .error, let problem = message.problem else { return true }
        host.log(.warning, host.element.unowned, "\(message.sourceName): \(problem.text) \(problem.debug)")
        if receiver.withLock({ $0 })?.isSource(of: message) == true {
            // One failure may post several errors.
            if !isRebuilding.exchange(true, ordering: .acquiringAndReleasing) {
                perform { [weak self] in self?.rebuildReceiver(because: problem.text) }
            }
        } else {
            let text = "The element \(message.sourceName) failed: \(problem.text)"
            onEvent(.failed(SessionError(.webRTC, text, stage: .media)))
        }
        return true
    }

    /// Size of the decoded frames before scaling. Any thread.
    var receivedSize: (width: Int, height: Int)? { receiver.withLock { $0 }?.receivedSize }

    // MARK: Building

    /// Builds the decoder behind a connection that has negotiated its codec.
    func receive(from connection: PeerConnection) throws {
        guard let bin, let codec = connection.negotiatedCodec, let source = connection.bin.staticPad("rtp_src") else {
            return
        }
        try buildReceiver(codec: codec, from: source, in: bin)
    }

    /// Builds the encoder in front of a connection that has negotiated its send parameters.
    func send(through connection: PeerConnection) throws {
        guard let bin, let parameters = connection.sendParameters, let sink = connection.bin.staticPad("rtp_sink")
        else { return }
        shared.withLock { $0 = connection }
        let encoder = try makeEncoder(parameters)
        for each in encoder.encoders { host.onEncoder(each) }
        bin.add(encoder.bin)
        guard let encoderSink = encoder.bin.staticPad("sink"), let encoderSource = encoder.bin.staticPad("src") else {
            return
        }
        try encoderSource.link(sink)
        let input = Pad(name: "raw_in", direction: .source)
        input.setActive(true)
        try input.link(encoderSink)
        encoderInput = input
        encoder.bin.syncStateWithParent()
        announce(on: input)
        let sent = Mutex((width: 0, height: 0))
        host.input.addDelivery(attempt: attempt) { [weak self, encoder, markers] frame in
            guard let self else { return }
            self.follow(encoder)
            self.host.facts.sent(
                frame.size, bytes: self.sender?.bytesSent ?? 0, at: self.host.element.unowned.currentRunningTime)
            let changed = sent.withLock { sent in
                defer { sent = frame.size }
                return sent != frame.size
            }
            if changed {
                encoder.setSize(width: frame.size.width, height: frame.size.height)
                self.pushCaps(on: input, frame.size)
            }
            guard let time = frame.runningTime, let buffer = frame.buffer.copyOfMetadata() else { return }
            buffer.pts = time
            buffer.dts = nil
            _ = input.push(markers?.mark(buffer, size: frame.size, at: time) ?? buffer)
        }
    }

    private func makeEncoder(_ parameters: RTPSendParameters) throws -> any VideoSender {
        let layers = settings.layers.filter { layer in parameters.layers.contains { $0.rid == layer.rid } }
        guard layers.count > 1 else {
            return try VideoEncoderBin(
                parameters: parameters, bitrate: settings.bitrate, encoderDescription: settings.encoder)
        }
        let encoder = try SimulcastEncoderBin(
            parameters: parameters, layers: layers, allocation: settings.allocation(of: layers),
            size: settings.size.current,
            bitrate: settings.bitrate, encoderDescription: settings.encoder)
        simulcast.withLock { $0 = encoder }
        return encoder
    }

    /// RIDs of the simulcast layers that are sent now, highest resolution first. Any thread.
    var sentLayers: [String] { simulcast.withLock { $0 }?.sentLayers ?? [] }

    private func announce(on input: Pad) {
        input.push(Event.streamStart(id: "decart/raw", groupID: Event.nextGroupID()))
        pushCaps(on: input, settings.size.current)
        input.push(Event.timeSegment())
    }

    private func pushCaps(on input: Pad, _ size: (width: Int, height: Int)) {
        let format = OutputFormat(width: size.width, height: size.height, framerate: (settings.framerate, 1))
        if let caps = try? Caps(format.capsText) { input.push(Event.caps(caps)) }
    }

    private func buildReceiver(codec: VideoCodec, from source: Pad, in bin: Bin) throws {
        let chain = ReceiveChain(codec: codec, bin: bin, followsReceived: settings.followsReceived, markers: markers)
        receiver.withLock { $0 = chain }
        let decoded = host.output.makeInput(attempt: attempt, onFormat: { [weak chain] in chain?.set(format: $0) }) {
            [weak self] in
            self?.frameArrived()
        }
        self.decoded = decoded
        try chain.start(from: source, to: decoded)
    }

    /// Rebuilds the failed decoder in place; a third failure within ten seconds fails the connection.
    private func rebuildReceiver(because reason: String) {
        guard !stopped.load(ordering: .acquiring), let chain = receiver.withLock({ $0 }) else { return }
        let now = ContinuousClock.now
        rebuilds = rebuilds.filter { now - $0 < .seconds(10) } + [now]
        guard rebuilds.count < 3 else {
            return onEvent(
                .failed(SessionError(.webRTC, "The decoder failed three times within 10 s: \(reason)", stage: .media)))
        }
        do {
            try chain.rebuild { isRebuilding.store(false, ordering: .releasing) }
        } catch {
            fail(error)
        }
    }

    // MARK: Bitrate, received frames and failures

    private struct Rate {
        var target: BitrateTarget?
        var applied = 0
        var ladder: DegradationLadder?
    }

    /// Adapts bitrate, frame rate and size to the target before a frame enters the encoder, whose setters block while
    /// it encodes. Called on the thread that delivers the frame.
    private func follow(_ encoder: any VideoSender) {
        let (bitrate, level) = rate.withLock { rate -> (Int?, DegradationLadder.Level?) in
            guard let target = rate.target else { return (nil, nil) }
            defer { rate.applied = target.target }
            let bitrate = target.target == rate.applied ? nil : target.target
            guard let encodedBytes = encoder.bytesOfDeltaFrames else { return (bitrate, nil) }
            if rate.ladder == nil {
                let size = settings.size.current
                rate.ladder = DegradationLadder(
                    width: size.width, height: size.height, frameRate: Double(settings.framerate))
            }
            return (bitrate, rate.ladder?.frame(target, encodedBytes: encodedBytes, now: MonotonicTime.now))
        }
        if let bitrate { encoder.setBitrate(bitrate) }
        if let level {
            host.input.gate.setMaximumRate(
                framesPerSecond: min(level.frameRate ?? settings.framerate, settings.framerate))
            host.input.setScale(level.scale)
        }
    }

    /// Any thread.
    func take(_ target: BitrateTarget) { rate.withLock { $0.target = target } }

    /// Called on the decoder's thread.
    private func frameArrived() {
        received.wrappingAdd(1, ordering: .relaxed)
        host.facts.received(at: host.element.unowned.currentRunningTime)
        if !firstFrame.exchange(true, ordering: .relaxed) { onEvent(.firstFrame) }
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
            let text = error.message
            problem = SessionError(
                .invalidOptions, (text.first.map { $0.uppercased() + text.dropFirst() } ?? "") + ".", stage: .media,
                isPermanent: true)
        default:
            problem = SessionError(.webRTC, "The media path failed.", stage: .media)
        }
        onEvent(.failed(problem))
    }
}
