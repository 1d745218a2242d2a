// The element's side of a media path: encoder and decoder in one bin inside the element, behind one or two peer
// connections. It knows the element's two ends and RTP; it must not know how connections come about.
//
// Every method runs on the session's queue, which may block in GStreamer, unless it says otherwise.
import DecartProtocol
import DecartSession
import GStreamerKit
import LiveKitTransport
import Signalling
import Synchronization
import WebRTCTransport

/// What a media path needs of the element around it.
struct MediaHost: Sendable {
    let element: ElementHandle
    let input: InputChain
    let output: VideoOutput
    let audio: AudioTrack
    let facts: VideoTrackFacts
    let log: DebugCategory
    /// For `timestamps=capture`.
    var timing: CaptureTiming?
    /// An encoder was made: the application may set it up.
    let onEncoder: @Sendable (Element) -> Void
}

/// Size of the pictures that are sent; it may be turned when the input's shape becomes known.
final class PictureSize: Sendable {
    private let value: Mutex<(width: Int, height: Int)>
    init(width: Int, height: Int) { value = Mutex((width, height)) }
    var current: (width: Int, height: Int) { value.withLock { $0 } }
    func set(width: Int, height: Int) { value.withLock { $0 = (width, height) } }
}

struct MediaSettings: Sendable {
    var format = VideoFormat(width: 0, height: 0, framerate: 0)
    var connection = PeerConnectionConfiguration()
    var size: PictureSize
    var framerate: Int
    /// What the encoder starts with, bit/s; the network decides from then on.
    var bitrate: Int
    var encoder: String
    var followsReceived: Bool
    /// Where there is a room.
    var simulcast = false
    /// Nothing is sent.
    var onlyWatches = false
    var label = TrackLabel()
    /// Rooms are reached with the same trust as the control channel.
    var room: RoomAccess?

    /// Of a simulcast, the best one first; empty: one stream.
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

/// How rooms are joined, besides what the service says.
struct RoomAccess: Sendable {
    var trust: TLSTrust
    var allowsInsecure: Bool
    var openTimeout: Duration
    /// One connection for both directions, where the server has it.
    var prefersSingle: Bool
}

/// A media path as the element sees it.
protocol ElementMedia: MediaTransport {
    var statistics: PeerConnectionStatistics? { get }
    /// Whether the message is of the media path, which deals with it itself.
    func takesOver(_ message: Message) -> Bool
    /// Size of the decoded pictures before they are scaled.
    var receivedSize: (width: Int, height: Int)? { get }
    /// The far side takes our pictures.
    var isPublished: Bool { get }
    /// Streams of a simulcast that are sent now, by rid, the best one first; empty: there is one stream.
    var sentLayers: [String] { get }
    /// A room's name for our track.
    var trackSID: String? { get }
    /// Whether sound is to go both ways; the session's queue, any number of times between start and stop, and
    /// remembered before there is a connection. The picture never stops for it.
    func setAudio(_ isWanted: Bool)
    /// Whether our picture is offered at all; as `setAudio`. Withdrawn, the session and its result stay.
    func setVideoPublished(_ isPublished: Bool)
}

// @unchecked: fields belong to the session's queue; what other threads read is atomic or in a mutex.
final class MediaPath: @unchecked Sendable {
    let host: MediaHost
    let settings: MediaSettings
    private let onEvent: @Sendable (MediaEvent) -> Void
    private var connections: [PeerConnection] = []
    private(set) var bin: Bin?
    let audio: AudioPath
    private var decoded: Pad?
    private var encoderInput: Pad?
    /// The element's count when this path began.
    private let sentBefore = Atomic<UInt64>(0)
    private let received = Atomic<UInt64>(0)
    private let firstFrame = Atomic(false)
    private let stopped = Atomic(false)
    // What other threads may ask for, until `stop`. The connection is the one that sends.
    private let shared = Mutex<PeerConnection?>(nil)
    private let owned = Mutex<Bin?>(nil)
    private let receiver = Mutex<ReceiveChain?>(nil)
    private let simulcast = Mutex<SimulcastEncoderBin?>(nil)
    private let isRebuilding = Atomic(false)
    private let door = Mutex((isOpen: false, isPublished: true))
    private var rebuilds: [ContinuousClock.Instant] = []
    private let rate = Mutex(Rate())
    /// Set once, by `init`.
    private var marks: PictureMarks?

    /// Higher for a newer attempt.
    private let rank: Int

    /// Runs work on the session's queue.
    let perform: @Sendable (@escaping @Sendable () -> Void) -> Void

    init(
        rank: Int, host: MediaHost, settings: MediaSettings,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        self.rank = rank
        self.perform = perform
        self.host = host
        self.settings = settings
        self.onEvent = onEvent
        audio = AudioPath(rank: rank, track: host.audio)
        if let timing = host.timing {
            marks = PictureMarks(rank: rank, timing: timing) { [weak self] take in
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

    /// Of the connection that sends; any thread.
    var sender: PeerConnection? { shared.withLock { $0 } }

    // MARK: Life

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

    /// Before it is negotiated.
    func add(_ connection: PeerConnection) {
        guard let bin else { return connection.close() }
        connections.append(connection)
        if connections.count == 1 { shared.withLock { $0 = connection } }
        bin.add(connection.bin)
        connection.bin.syncStateWithParent()
    }

    /// Sound may be sent, and pictures, unless ours are withdrawn; any thread.
    func open() {
        guard !settings.onlyWatches else { return }
        host.audio.gate.open(rank: rank)
        door.withLock { door in
            door.isOpen = true
            if door.isPublished { host.input.gate.open(rank: rank) }
        }
    }

    /// While our picture is withdrawn, frames are dropped, or wait, as without a session; any thread.
    func setPublished(_ isPublished: Bool) {
        door.withLock { door in
            guard door.isPublished != isPublished else { return }
            door.isPublished = isPublished
            if !isPublished {
                host.input.gate.close(rank: rank)
            } else if door.isOpen {
                host.input.gate.open(rank: rank)
            }
        }
    }

    /// The far side takes our pictures; any thread.
    var isPublished: Bool { door.withLock { $0.isOpen && $0.isPublished } }

    /// Any thread.
    func warn(_ text: String) { host.log(.warning, host.element.unowned, text) }

    func stop() {
        guard !stopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        host.audio.gate.close(rank: rank)
        door.withLock { door in
            (door.isOpen, door.isPublished) = (false, false)
            host.input.gate.close(rank: rank)
        }
        host.input.removeDelivery(rank: rank)
        host.output.removeInput(rank: rank)
        host.input.setScale(.full)
        host.input.gate.setMaximumRate(framesPerSecond: settings.framerate)
        shared.withLock { $0 = nil }
        owned.withLock { $0 = nil }
        simulcast.withLock { $0 = nil }
        for connection in connections { connection.close() }
        encoderInput?.setActive(false)
        stopAudio()
        if let bin {
            // Otherwise the parent could raise it again while it goes down.
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

    /// A child's error: the decoder is made anew, for anything else the connection is given up; the pipeline goes on.
    /// Any thread.
    func takesOver(_ message: Message) -> Bool {
        guard let bin = owned.withLock({ $0 }), message.isFrom(within: bin) else { return false }
        guard message.kind == .error, let problem = message.problem else { return true }
        host.log(.warning, host.element.unowned, "\(message.sourceName): \(problem.text) \(problem.debug)")
        if receiver.withLock({ $0 })?.isSource(of: message) == true {
            // One failure may be told more than once.
            if !isRebuilding.exchange(true, ordering: .acquiringAndReleasing) {
                perform { [weak self] in self?.rebuildReceiver(because: problem.text) }
            }
        } else {
            onEvent(.failed(SessionError(.webRTC, "The media path failed: \(problem.text)", stage: .media)))
        }
        return true
    }

    /// Size of the decoded pictures before they are scaled.
    var receivedSize: (width: Int, height: Int)? { receiver.withLock { $0 }?.receivedSize }

    // MARK: Building

    /// The decoder, behind a connection that knows its codec.
    func receive(from connection: PeerConnection) throws {
        guard let bin, let codec = connection.negotiatedCodec, let source = connection.bin.staticPad("rtp_src") else { return }
        try buildReceiver(codec: codec, from: source, in: bin)
    }

    /// The encoder, before a connection that knows what the far side takes.
    func send(through connection: PeerConnection) throws {
        guard let bin, let parameters = connection.sendParameters, let sink = connection.bin.staticPad("rtp_sink") else { return }
        shared.withLock { $0 = connection }
        let encoder = try makeEncoder(parameters)
        for each in encoder.encoders { host.onEncoder(each) }
        bin.add(encoder.bin)
        guard let encoderSink = encoder.bin.staticPad("sink"), let encoderSource = encoder.bin.staticPad("src") else { return }
        try encoderSource.link(sink)
        let input = Pad(name: "raw_in", direction: .source)
        input.setActive(true)
        try input.link(encoderSink)
        encoderInput = input
        encoder.bin.syncStateWithParent()
        announce(on: input)
        let sent = Mutex((width: 0, height: 0))
        host.input.addDelivery(rank: rank) { [weak self, encoder, marks] frame in
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
            _ = input.push(marks?.mark(buffer, size: frame.size, at: time) ?? buffer)
        }
    }

    private func makeEncoder(_ parameters: RTPSendParameters) throws -> any VideoSender {
        let layers = settings.layers.filter { layer in parameters.layers.contains { $0.rid == layer.rid } }
        guard layers.count > 1 else {
            return try VideoEncoderBin(
                parameters: parameters, bitrate: settings.bitrate, encoderDescription: settings.encoder)
        }
        let encoder = try SimulcastEncoderBin(
            parameters: parameters, layers: layers, allocation: settings.allocation(of: layers), size: settings.size.current,
            bitrate: settings.bitrate, encoderDescription: settings.encoder)
        simulcast.withLock { $0 = encoder }
        return encoder
    }

    /// Streams of a simulcast that are sent now, by rid, the best one first; any thread.
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
        let chain = ReceiveChain(codec: codec, bin: bin, followsReceived: settings.followsReceived, marks: marks)
        receiver.withLock { $0 = chain }
        let decoded = host.output.makeInput(rank: rank, onFormat: { [weak chain] in chain?.set(format: $0) }) { [weak self] in
            self?.frameArrived()
        }
        self.decoded = decoded
        try chain.start(from: source, to: decoded)
    }

    /// The decoder gave up. Once or twice that is put right in place; a third time within ten seconds it is not.
    private func rebuildReceiver(because reason: String) {
        guard !stopped.load(ordering: .acquiring), let chain = receiver.withLock({ $0 }) else { return }
        let now = ContinuousClock.now
        rebuilds = rebuilds.filter { now - $0 < .seconds(10) } + [now]
        guard rebuilds.count < 3 else {
            return onEvent(.failed(SessionError(.webRTC, "The decoder failed three times within 10 s: \(reason)", stage: .media)))
        }
        do {
            try chain.rebuild { isRebuilding.store(false, ordering: .releasing) }
        } catch {
            fail(error)
        }
    }

    // MARK: The network's word

    private struct Rate {
        var target: BitrateTarget?
        var applied = 0
        var ladder: DegradationLadder?
    }

    /// The input's thread, before a frame goes to the encoder, whose settings wait for the frame that it works on.
    private func follow(_ encoder: any VideoSender) {
        let (bitrate, level) = rate.withLock { rate -> (Int?, DegradationLadder.Level?) in
            guard let target = rate.target else { return (nil, nil) }
            defer { rate.applied = target.target }
            let bitrate = target.target == rate.applied ? nil : target.target
            guard let made = encoder.bytesOfDeltaFrames else { return (bitrate, nil) }
            if rate.ladder == nil {
                let size = settings.size.current
                rate.ladder = DegradationLadder(width: size.width, height: size.height, frameRate: Double(settings.framerate))
            }
            return (bitrate, rate.ladder?.frame(target, made: made, now: MonotonicTime.now))
        }
        if let bitrate { encoder.setBitrate(bitrate) }
        if let level {
            host.input.gate.setMaximumRate(framesPerSecond: min(level.frameRate ?? settings.framerate, settings.framerate))
            host.input.setScale(level.scale)
        }
    }

    /// Any thread.
    func take(_ target: BitrateTarget) { rate.withLock { $0.target = target } }

    /// The decoder's thread.
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
