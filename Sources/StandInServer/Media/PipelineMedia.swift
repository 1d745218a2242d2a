// Queue, pipeline, connections, failure report and teardown, shared by the media of direct sessions, room participants and
// viewers.
//
// Threads: everything runs on `queue`, never on the connection's thread.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields, those of subclasses too, are touched on `queue` only.
class PipelineMedia: @unchecked Sendable {
    private let queue: DispatchQueue
    private let role: String
    let options: MediaOptions
    /// Nil: a direct connection.
    let room: RoomTracks?
    let isSingle: Bool
    let takesTrailers: Bool
    let onEvent: @Sendable (MediaSessionEvent) -> Void
    private let hasSides: Bool
    private let loggers: TransportLoggers

    // MARK: State (`queue`)
    /// Made on the queue, because the initialisation of GStreamer may take long.
    private(set) lazy var pipeline = {
        GStreamerRuntime.initialise()
        return Pipeline()
    }()
    /// The connection for which the peer offers. A direct or single connection sends too.
    var publisher: PeerConnection?
    /// The connection for which the room offers.
    var subscriber: PeerConnection?
    private var firstOffer: String?
    private var isAnswered = false
    var encoder: VideoEncoderBin?
    private var connections: [PeerConnection] = []
    private var pads: [Pad] = []
    private var busTimer: (any DispatchSourceTimer)?
    private var isOver = false

    /// - Parameters:
    ///   - role: Name of the peer in logs, and of the queue.
    ///   - hasSides: Two connections may exist: failures name theirs.
    ///   - onEvent: called with the log and the failure too, which comes once at most.
    init(
        role: String, options: MediaOptions, room: RoomTracks?, hasSides: Bool = false,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        queue = DispatchQueue(label: "decart-standin.\(role)")
        (self.role, self.options, self.room, self.hasSides, self.onEvent) = (role, options, room, hasSides, onEvent)
        (isSingle, takesTrailers) = (room?.isSingle ?? true, room?.takesTrailers ?? false)
        loggers = TransportLoggers { onEvent(.logged($0)) }
    }

    // MARK: For subclasses (called on the queue)

    func receive(offer: String, _ codecs: PublishedCodecs) throws {}

    func restart(_ output: Fault.Output) throws {}

    /// Codec of the video that the room offers; nil: any.
    var sentCodec: VideoCodec? { nil }

    /// Starts to send what the connection has negotiated.
    func send(to connection: PeerConnection) throws {}

    /// Called each second while the pipeline plays.
    func secondPassed() {}

    /// Called once the connections are closed and before the pipeline stops.
    func cleanUp() {}

    // MARK: Negotiation

    func perform(_ request: MediaRequest) {
        work(request.failure) { [self] in
            switch request {
            case .receiveOffer(let sdp, let codecs): try receive(offer: sdp, codecs)
            case .receiveAnswer(let sdp):
                guard let connection = room == nil ? publisher : subscriber else { return }
                try connection.setAnswer(sdp)
                isAnswered = true
                try send(to: connection)
            case .addCandidate(let candidate, let side):
                (side == .publisher ? publisher : subscriber)?.addRemoteCandidate(candidate.map(ICECandidate.init))
            case .restart(let output): try restart(output)
            case .offer(let tracks): try offer(tracks)
            case .restartICE(let tracks): try restartICE(tracks)
            case .moveVideo: subscriber?.moveVideo()
            }
        }
    }

    /// Connects the transport of the subscriber first; `offer` adds the tracks later.
    func makeFirstOffer() throws {
        firstOffer = try subscriber?.createOffer()
        if let firstOffer { onEvent(.offered(sdp: firstOffer)) }
    }

    func offer(_ tracks: Set<MediaKind>) throws {
        guard let subscriber else { return }
        subscriber.send(tracks, codec: sentCodec)
        onEvent(.offered(sdp: try subscriber.createOffer()))
    }

    private func restartICE(_ tracks: Set<MediaKind>) throws {
        guard let subscriber else { return }
        // There is nothing to restart before the first answer: the peer gets the offer again.
        guard isAnswered else { return firstOffer.map { onEvent(.offered(sdp: $0)) } ?? () }
        subscriber.rollbackOffer()
        subscriber.send(tracks, codec: sentCodec)
        onEvent(.offered(sdp: try subscriber.createOffer(restartsICE: true, reason: "the \(role) resumes")))
    }

    /// Runs work on the queue, unless the media have ended.
    func work(_ failure: String, _ body: @escaping @Sendable () throws -> Void) {
        queue.async { [self] in
            guard !isOver else { return }
            do {
                try body()
            } catch {
                fail("\(failure): \(error)")
            }
        }
    }

    /// Reports the first failure only; later ones are its consequences. Called on the queue.
    private func fail(_ text: String) {
        guard !isOver else { return }
        isOver = true
        onEvent(.failed(text))
    }

    // MARK: Building (on the queue)

    /// Adds a connection to the pipeline. Its events arrive on the queue, after the work that waits there: candidates
    /// found while a description is being created follow it.
    func connect(_ side: RoomSide, _ configure: (inout PeerConnectionConfiguration) -> Void) throws -> PeerConnection {
        // Initialises GStreamer, which the connection needs.
        let pipeline = pipeline
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, options.bitrate)...options.bitrate
        configuration.loggers = loggers
        configuration.network = options.network
        configuration.acceptsDataChannels = room != nil
        configuration.msid = room?.msid
        configuration.audioMSID = room?.audioMSID
        configure(&configuration)
        let connection = try PeerConnection(configuration: configuration) { [weak self] event in
            guard let self else { return }
            work("an event could not be handled") { self.handle(event, side) }
        }
        connections.append(connection)
        pipeline.add(connection.bin)
        connection.bin.syncStateWithParent()
        return connection
    }

    private func handle(_ event: PeerConnectionEvent, _ side: RoomSide) {
        switch event {
        case .localCandidate(let candidate): onEvent(.localCandidate(CandidateMessage(candidate), side))
        case .gatheringComplete: onEvent(.localCandidate(nil, side))
        case .stateChanged(.connected): onEvent(.connected(side))
        case .stateChanged(.failed(let error)):
            let text = hasSides ? "\(side): \(error.message)" : error.message
            guard hasSides, error == .closedByPeer else { return fail(text) }
            // A client that leaves may close its connections before its leave message arrives.
            queue.asyncAfter(deadline: .now() + 2) { [weak self] in self?.fail(text) }
        case .bitrateTarget(let target):
            if side == .subscriber || isSingle { encoder?.setBitrate(min(target.target, options.bitrate)) }
        case .streamArrived(let rid): onEvent(.streamArrived(rid: rid))
        case .stateChanged, .iceConnected, .disconnected, .reconnected, .iceRestarted, .codecArrived,
            .relaysMissing:
            break
        }
    }

    /// Starts the pipeline, and empties its bus with a timer: no main loop runs here, and an unread bus would grow
    /// without limit.
    func play() throws {
        guard pipeline.setState(.playing) != .failure else {
            throw PeerConnectionError(.wrongState, "the pipeline does not start")
        }
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + .milliseconds(100), repeating: .milliseconds(100), leeway: .milliseconds(50))
        var rounds = 0
        timer.setEventHandler { [weak self, bus = pipeline.bus] in
            rounds = (rounds + 1) % 10
            if rounds == 0 { self?.secondPassed() }
            while let message = bus.next(timeout: .zero) {
                guard message.kind == .error else { continue }
                self?.fail("the media pipeline failed: \(message.problem?.text ?? "")")
            }
        }
        timer.resume()
        busTimer = timer
    }

    /// Activates a pad that belongs to no element, and deactivates it before the pipeline goes to NULL.
    func own(_ pad: Pad) {
        pad.setActive(true)
        pads.append(pad)
    }

    // MARK: The end

    /// Follows the order that `PeerConnection` requires: close, bin to NULL, remove from the pipeline, dismantle.
    func stop(completion: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isOver = true
            busTimer?.cancel()
            busTimer = nil
            for connection in connections { connection.close() }
            cleanUp()
            (publisher, subscriber, encoder) = (nil, nil, nil)
            for pad in pads { pad.setActive(false) }
            pipeline.setState(.null)
            for connection in connections {
                pipeline.remove(connection.bin)
                connection.dismantle()
            }
            (connections, pads) = ([], [])
            completion()
        }
    }
}

extension MediaRequest {
    /// Begins the text of a failure.
    fileprivate var failure: String {
        switch self {
        case .receiveOffer: "the offer could not be taken"
        case .receiveAnswer: "the answer could not be taken"
        case .addCandidate: "a candidate could not be taken"
        case .restart: "the output could not come back"
        case .offer: "the track could not be offered"
        case .restartICE: "ICE could not be restarted"
        case .moveVideo: "the video could not move"
        }
    }
}

extension Element {
    func pad(_ name: String) throws(GStreamerError) -> Pad {
        guard let pad = staticPad(name) else { throw GStreamerError(.linkFailed, "the pad \(name) is missing") }
        return pad
    }

    func link(_ source: String, to downstream: Element, _ sink: String) throws {
        try pad(source).link(downstream.pad(sink))
    }
}

extension PeerConnection {
    /// Sends these tracks, and no others, from the next offer on.
    func send(_ tracks: Set<MediaKind>, codec: VideoCodec?) {
        setMedia(
            video: tracks.contains(.video) ? .sendonly : nil, audio: tracks.contains(.audio) ? .sendonly : nil,
            codec: codec)
    }
}
