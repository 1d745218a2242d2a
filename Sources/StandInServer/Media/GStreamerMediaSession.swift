// The media of one direct session: peer connection, decoder, painter and encoder in one pipeline. It knows no WebSocket
// and no JSON.
//
// Threads: everything runs on the queue of `life`, never on the event loop; frames are painted on a streaming thread.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on the queue of `life` only.
final class GStreamerMediaSession: MediaSession, @unchecked Sendable {
    private let life: MediaLifecycle
    private let options: MediaOptions
    private let painter: FramePainter
    private let faults: MediaFaults
    private let onEvent: @Sendable (MediaEvent) -> Void

    // MARK: State (queue)
    private var connection: PeerConnection?
    private var encoder: VideoEncoderBin?
    /// The capsfilter that the RTP packets leave through.
    private var exit: Element?
    private var echo: AudioEcho?
    private var meters = (received: BitrateMeter(), sent: BitrateMeter())

    init(
        options: MediaOptions, painter: FramePainter, faults: MediaFaults,
        onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        life = MediaLifecycle(
            label: "decart-standin.media", network: options.network, onLog: { onEvent(.logged($0)) },
            onFailure: { onEvent(.failed($0)) })
        self.options = options
        self.painter = painter
        self.faults = faults
        self.onEvent = onEvent
    }

    func start(offer: String) {
        life.work("the offer could not be taken") { [self] in
            do {
                onEvent(.answered(sdp: try makePipeline(answering: offer)))
            } catch let error as PeerConnectionError where error.code == .rejected {
                onEvent(.answered(sdp: try RejectingAnswer.sdp(to: offer)))
            }
        }
    }

    func receive(offer: String) {
        life.work("the later offer could not be taken") { [self] in
            guard let connection else { return }
            let answer = try connection.createAnswer(to: offer)
            try echoAudio()
            onEvent(.answered(sdp: answer))
        }
    }

    func receive(answer: String) {
        life.work("the answer could not be taken") { [self] in try connection?.setAnswer(answer) }
    }

    func restart(_ output: Fault.Output) {
        life.work("the output could not come back") { [self] in
            guard let connection else { return }
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
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        life.work("a candidate could not be taken") { [self] in
            connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func add(_ faults: [Fault]) { self.faults.add(faults) }

    func stop(completion: @escaping @Sendable () -> Void) {
        life.stop(
            cleanUp: { [self] in (connection, encoder, exit, echo) = (nil, nil, nil, nil) }, completion: completion)
    }

    // MARK: Pipeline

    private func makePipeline(answering offer: String) throws -> String {
        var configuration = PeerConnectionConfiguration()
        configuration.audio = .sendrecv
        configuration.bitrateRange = min(100_000, options.bitrate)...options.bitrate
        if options.echoesEncoded { EncodedEcho.prepare(&configuration) }
        let connection = try life.connect(configuration) { [weak self] in self?.handle($0) }
        self.connection = connection
        let answer = try connection.createAnswer(to: offer)
        guard let parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        if options.echoesEncoded {
            try echoVideo(connection, parameters)
        } else {
            try paintVideo(connection, parameters)
        }
        try echoAudio()
        painter.measure { $0.codec = parameters.codec.encodingName }
        life.onSecond = { [weak self] in self?.measure() }
        // Start before the answer is sent: packets must not arrive in a stopped pipeline.
        try life.play()
        return answer
    }

    private func measure() {
        guard let statistics = connection?.statistics() else { return }
        let received = meters.received.rate(statistics.allBytesReceived)
        let sent = meters.sent.rate(statistics.allBytesSent)
        painter.measure {
            ($0.receivedBitrate, $0.sentBitrate, $0.roundTripTime) = (received, sent, statistics.roundTripTime)
        }
    }

    private func echoVideo(_ connection: PeerConnection, _ parameters: RTPSendParameters) throws {
        let echo = try EncodedEcho(parameters.codec, painter: painter, faults: faults)
        try echo.receive(from: connection, life)
        try echo.send(parameters, to: connection, life)
    }

    private func paintVideo(_ connection: PeerConnection, _ parameters: RTPSendParameters) throws {
        let decoder = try VideoDecoderBin.make(codec: parameters.codec)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: options.bitrate)
        let painting = try PaintingBin(painter: painter, faults: faults)
        encoder.spoilFrames(while: faults)
        self.encoder = encoder
        life.own(painting.painted)
        life.pipeline.add([decoder, painting.bin, encoder.bin])
        try connection.bin.link("rtp_src", to: decoder, "sink")
        try decoder.link(painting.bin)
        guard let toEncoder = encoder.bin.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the encoder has no sink pad")
        }
        try painting.painted.link(toEncoder)
        painting.painted.setActive(true)
        let exit = try encoder.exit(faults, described: parameters.ssrc, in: life.pipeline)
        self.exit = exit
        try exit.link("src", to: connection.bin, "rtp_sink")
    }

    /// Builds the echo once audio is negotiated; afterwards the connection itself follows changes of direction.
    private func echoAudio() throws {
        guard echo == nil, let connection, let parameters = connection.audioSendParameters else { return }
        let echo = try AudioEcho(delay: painter.delay, viewers: painter.viewers)
        self.echo = echo
        life.own(echo.echoed)
        try echo.send(to: connection, parameters, in: life.pipeline)
        try echo.receive(from: connection, in: life.pipeline)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate):
            onEvent(.localCandidate(CandidateMessage(candidate)))
        case .gatheringComplete:
            onEvent(.localCandidate(nil))
        case .stateChanged(.failed(let error)):
            life.fail(error.message)
        case .bitrateTarget(let target):
            encoder?.setBitrate(min(target.target, options.bitrate))
        case .stateChanged, .iceConnected, .disconnected, .reconnected, .iceRestarted, .remoteBitrateEstimate,
            .codecArrived, .streamArrived, .relaysMissing:
            break
        }
    }
}
