// Queue, pipeline, failure report and teardown, shared by the media of direct sessions, room participants and viewers.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on `queue` only.
final class MediaLifecycle: @unchecked Sendable {
    private let queue: DispatchQueue
    private let hasSides: Bool
    private let onEvent: @Sendable (MediaSessionEvent) -> Void
    private let loggers: TransportLoggers
    private let network: ICENetwork

    // MARK: State (`queue`)
    /// Made on the queue, because the initialisation of GStreamer may take long.
    private(set) lazy var pipeline = {
        GStreamerRuntime.initialise()
        return Pipeline()
    }()
    private var connections: [PeerConnection] = []
    private var pads: [Pad] = []
    private var busTimer: (any DispatchSourceTimer)?
    /// Called each second while the pipeline plays.
    var onSecond: (() -> Void)?
    private var isOver = false

    /// - Parameters:
    ///   - hasSides: Two connections may exist: failures name theirs.
    ///   - onEvent: called with the log and the failure too, which comes once at most.
    init(
        label: String, network: ICENetwork, hasSides: Bool = false,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        queue = DispatchQueue(label: label)
        (self.network, self.hasSides, self.onEvent) = (network, hasSides, onEvent)
        loggers = TransportLoggers { onEvent(.logged($0)) }
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
    func fail(_ text: String) {
        guard !isOver else { return }
        isOver = true
        onEvent(.failed(text))
    }

    // MARK: Building (on the queue)

    /// Adds a connection to the pipeline. Its events arrive on the queue, after the work that waits there: candidates
    /// found while a description is being created follow it.
    /// - Parameter onTarget: called with the encoder's target, bit/s.
    func connect(
        _ configuration: PeerConnectionConfiguration, _ side: RoomSide, onTarget: @escaping @Sendable (Int) -> Void
    ) throws -> PeerConnection {
        // Initialises GStreamer, which the connection needs.
        let pipeline = pipeline
        var configuration = configuration
        configuration.loggers = loggers
        configuration.network = network
        let connection = try PeerConnection(configuration: configuration) { [weak self] event in
            guard let self else { return }
            work("an event could not be handled") { self.handle(event, side, onTarget) }
        }
        connections.append(connection)
        pipeline.add(connection.bin)
        connection.bin.syncStateWithParent()
        return connection
    }

    private func handle(_ event: PeerConnectionEvent, _ side: RoomSide, _ onTarget: (Int) -> Void) {
        switch event {
        case .localCandidate(let candidate): onEvent(.localCandidate(CandidateMessage(candidate), side))
        case .gatheringComplete: onEvent(.localCandidate(nil, side))
        case .stateChanged(.connected): onEvent(.connected(side))
        case .stateChanged(.failed(let error)):
            let text = hasSides ? "\(side): \(error.message)" : error.message
            guard hasSides, error == .closedByPeer else { return fail(text) }
            // A client that leaves may close its connections before its leave message arrives.
            queue.asyncAfter(deadline: .now() + 2) { [weak self] in self?.fail(text) }
        case .bitrateTarget(let target): onTarget(target.target)
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
            if rounds == 0 { self?.onSecond?() }
            while let message = bus.next(timeout: .zero) {
                guard message.kind == .error else { continue }
                self?.fail("the media pipeline failed: \(message.problem?.text ?? "")")
            }
        }
        timer.resume()
        busTimer = timer
    }

    /// Deactivates a pad that belongs to no element before the pipeline goes to NULL.
    func own(_ pad: Pad) { pads.append(pad) }

    // MARK: The end

    /// Follows the order that `PeerConnection` requires: close, bin to NULL, remove from the pipeline, dismantle.
    /// - Parameters:
    ///   - cleanUp: called on the queue, once the connections are closed and before the pipeline stops.
    ///   - completion: called once for each call; no event follows it.
    func stop(cleanUp: @escaping @Sendable () -> Void, completion: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isOver = true
            busTimer?.cancel()
            busTimer = nil
            onSecond = nil
            for connection in connections { connection.close() }
            cleanUp()
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
