// The media of one direct session: peer connection, decoder, painter and encoder in one pipeline. It knows no WebSocket
// and no JSON.
//
// Threads: everything runs on `queue`, never on the event loop; frames are painted on a streaming thread.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on `queue` only.
final class GStreamerMediaSession: MediaSession, @unchecked Sendable {
    private let queue = DispatchQueue(label: "decart-standin.media")
    private let bitrate: Int
    private let latency: Duration
    private let painter: FramePainter
    private let faults: MediaFaults
    private let onEvent: @Sendable (MediaEvent) -> Void

    // MARK: State (`queue`)
    private var pipeline: Pipeline?
    private var connection: PeerConnection?
    private var encoder: VideoEncoderBin?
    /// The capsfilter that the RTP packets leave through.
    private var exit: Element?
    private var painted: Pad?
    private var echo: SoundEcho?
    private var busTimer: (any DispatchSourceTimer)?
    private var isOver = false

    init(
        bitrate: Int, latency: Duration, painter: FramePainter, faults: MediaFaults,
        onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        self.bitrate = bitrate
        self.latency = latency
        self.painter = painter
        self.faults = faults
        self.onEvent = onEvent
    }

    func start(offer: String) {
        queue.async { [self] in
            do {
                let answer = try makePipeline(answering: offer)
                if !isOver { onEvent(.answered(sdp: answer)) }
            } catch {
                fail("the offer could not be taken: \(error)")
            }
        }
    }

    func receive(offer: String) {
        queue.async { [self] in
            guard let connection, !isOver else { return }
            do {
                let answer = try connection.createAnswer(to: offer)
                try echoSound()
                onEvent(.answered(sdp: answer))
            } catch {
                fail("the later offer could not be taken: \(error)")
            }
        }
    }

    func receive(answer: String) {
        queue.async { [self] in
            guard let connection, !isOver else { return }
            do { try connection.setAnswer(answer) } catch { fail("the answer could not be taken: \(error)") }
        }
    }

    func restart(_ output: Fault.Output) {
        queue.async { [self] in
            guard let connection, !isOver else { return }
            do {
                switch output {
                case .newSSRC:
                    guard let exit else { return }
                    try VideoEncoderBin.setSSRC(UInt32.random(in: 1...UInt32.max), at: exit)
                    // Request a keyframe: the stream of a new SSRC begins with one, as another encoder's would.
                    exit.staticPad("sink")?.push(Event.forceKeyUnitUpstream())
                case .offer:
                    onEvent(.offered(sdp: try connection.createOffer()))
                case .newMID:
                    connection.moveVideo()
                    onEvent(.offered(sdp: try connection.createOffer()))
                case .same, .republish, .newSID: break
                }
            } catch {
                fail("the output could not come back: \(error)")
            }
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        queue.async { [self] in
            connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func add(_ faults: [Fault]) {
        self.faults.add(faults)
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isOver = true
            tearDown()
            completion()
        }
    }

    // MARK: Pipeline

    private func makePipeline(answering offer: String) throws -> String {
        GStreamerRuntime.initialise()
        // Candidates arrive while the answer is still being created; `queue` delivers them after it.
        var configuration = PeerConnectionConfiguration()
        // Long, as a browser's jitter buffer becomes on a bad path; it does not delay frames that arrive in order.
        configuration.jitterBufferLatency = latency
        configuration.audio = .sendrecv
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        let connection = try PeerConnection(configuration: configuration) { [weak self] event in
            guard let self else { return }
            self.queue.async { self.handle(event) }
        }
        let pipeline = Pipeline()
        pipeline.add(connection.bin)
        self.connection = connection
        self.pipeline = pipeline

        let answer = try connection.createAnswer(to: offer)
        guard let parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        let decoder = try VideoDecoderBin.make(codec: parameters.codec)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: bitrate)
        let painting = try PaintingBin(painter: painter, faults: faults, latency: latency)
        encoder.spoilFrames(while: faults)
        self.encoder = encoder
        painted = painting.painted
        pipeline.add([decoder, painting.bin, encoder.bin])
        try connection.bin.link("rtp_src", to: decoder, "sink")
        try decoder.link(painting.bin)
        guard let toEncoder = encoder.bin.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the encoder has no sink pad")
        }
        try painting.painted.link(toEncoder)
        painting.painted.setActive(true)
        let exit = try encoder.exit(faults, described: parameters.ssrc, in: pipeline)
        self.exit = exit
        try exit.link("src", to: connection.bin, "rtp_sink")
        try echoSound()
        // Start before the answer is sent: packets must not arrive in a stopped pipeline.
        guard pipeline.setState(.playing) != .failure else {
            throw PeerConnectionError(.wrongState, "the pipeline does not start")
        }
        busTimer = pipeline.watchBus(on: queue) { [weak self] words in self?.fail(words) }
        return answer
    }

    /// Builds the echo once audio is negotiated; afterwards the connection itself follows changes of direction.
    private func echoSound() throws {
        guard echo == nil, let connection, let pipeline, let parameters = connection.audioSendParameters else { return }
        let echo = try SoundEcho(delay: painter.delay)
        self.echo = echo
        try echo.send(to: connection, parameters, in: pipeline)
        try echo.receive(from: connection, in: pipeline)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent) {
        guard !isOver else { return }
        switch event {
        case .localCandidate(let candidate):
            onEvent(
                .localCandidate(
                    CandidateMessage(candidate)))
        case .gatheringComplete:
            onEvent(.localCandidate(nil))
        case .stateChanged(.failed(let error)):
            fail(error.message)
        case .bitrateTarget(let target):
            encoder?.setBitrate(min(target.target, bitrate))
        case .stateChanged, .iceConnected, .remoteBitrateEstimate, .streamArrived, .warning:
            break
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
        connection?.close()
        painted?.setActive(false)
        echo?.echoed.setActive(false)
        pipeline?.setState(.null)
        if let connection {
            pipeline?.remove(connection.bin)
            connection.dismantle()
        }
        painted = nil
        echo = nil
        encoder = nil
        exit = nil
        connection = nil
        pipeline = nil
    }
}
