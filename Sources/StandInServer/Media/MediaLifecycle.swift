// Queue, pipeline, failure report and teardown, shared by the media of direct sessions, room participants and viewers.
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on `queue` only.
final class MediaLifecycle: @unchecked Sendable {
    private let queue: DispatchQueue
    private let onFailure: @Sendable (String) -> Void
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
    ///   - onLog: called with each line of the connections' log, on any thread.
    ///   - onFailure: called once at most, on the queue.
    init(
        label: String, network: ICENetwork, onLog: @escaping @Sendable (String) -> Void,
        onFailure: @escaping @Sendable (String) -> Void
    ) {
        queue = DispatchQueue(label: label)
        self.network = network
        loggers = TransportLoggers(writing: onLog)
        self.onFailure = onFailure
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
    func fail(_ words: String) {
        guard !isOver else { return }
        isOver = true
        onFailure(words)
    }

    func fail(_ words: String, after seconds: Double) {
        queue.asyncAfter(deadline: .now() + seconds) { [weak self] in self?.fail(words) }
    }

    // MARK: Building (on the queue)

    /// Adds a connection to the pipeline. Its events arrive on the queue, after the work that waits there: candidates
    /// found while a description is being created follow it.
    func connect(
        _ configuration: PeerConnectionConfiguration, onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) throws -> PeerConnection {
        // Initialises GStreamer, which the connection needs.
        let pipeline = pipeline
        var configuration = configuration
        configuration.loggers = loggers
        configuration.network = network
        let connection = try PeerConnection(configuration: configuration) { [weak self] event in
            self?.work("an event could not be handled") { onEvent(event) }
        }
        connections.append(connection)
        pipeline.add(connection.bin)
        connection.bin.syncStateWithParent()
        return connection
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
    func link(_ source: String, to downstream: Element, _ sink: String) throws {
        guard let source = staticPad(source), let sink = downstream.staticPad(sink) else {
            throw GStreamerError(.linkFailed, "a pad is missing")
        }
        try source.link(sink)
    }
}
