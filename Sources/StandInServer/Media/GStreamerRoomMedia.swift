// The media of a room's participant: one connection receives its video and audio, another one sends the transformed
// video and the same audio. Decoder, painter, encoder and audio echo connect them in one pipeline, which grows as
// tracks are negotiated. If a single connection serves both directions, it is the publisher.
//
// Threads: everything runs on the queue of `life`, never on the event loop; frames are painted on a streaming thread.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on the queue of `life` only.
final class GStreamerRoomMedia: RoomMedia, @unchecked Sendable {
    private let life: MediaLifecycle
    private let options: MediaOptions
    private let painter: FramePainter
    /// Codec of the transformed video; nil: that of the received one.
    private let sentCodec: VideoCodec?
    private let faults: MediaFaults
    private let msid: String
    private let audioMSID: String
    private let isSingle: Bool
    private let takesTrailers: Bool
    private let onEvent: @Sendable (MediaEvent) -> Void

    // MARK: State (queue)
    private var publisher: PeerConnection?
    private var subscriber: PeerConnection?
    private var firstOffer: String?
    private var subscriberIsAnswered = false
    private var codec: VideoCodec?
    private var painted: Pad?
    private var encoder: VideoEncoderBin?
    /// Set instead of `painted` and `encoder` by `--echo-encoded`.
    private var videoEcho: EncodedEcho?
    private var videoEchoIsSent = false
    private var echo: AudioEcho?
    private var echoIsSent = false
    private var meters = (received: BitrateMeter(), sent: BitrateMeter())

    /// - Parameters:
    ///   - codec: Codec of the transformed video, if it is transformed and can be encoded here, on a connection of its own;
    ///     nil: that of the received video.
    ///   - isSingle: One connection serves both directions; the participant makes all offers.
    ///   - takesTrailers: Transformed frames have the trailers of their input frames.
    init(
        options: MediaOptions, painter: FramePainter, codec: VideoCodec?, faults: MediaFaults, msid: String,
        audioMSID: String,
        isSingle: Bool, takesTrailers: Bool, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        life = MediaLifecycle(
            label: "decart-standin.room", network: options.network, onLog: { onEvent(.logged($0)) },
            onFailure: { onEvent(.failed($0)) })
        self.options = options
        self.painter = painter
        sentCodec = options.echoesEncoded || codec?.installedEncoder == nil ? nil : codec
        self.faults = faults
        self.msid = msid
        self.audioMSID = audioMSID
        self.isSingle = isSingle
        self.takesTrailers = takesTrailers
        self.onEvent = onEvent
    }

    func start() {
        life.work("the room's media could not start") { [self] in
            if !isSingle { subscriber = try makeConnection(.subscriber) }
            life.onSecond = { [weak self] in self?.measure() }
            try life.play()
            if let subscriber {
                let offer = try subscriber.createOffer()
                firstOffer = offer
                onEvent(.offered(sdp: offer))
            }
        }
    }

    func add(_ faults: [Fault]) { self.faults.add(faults) }

    func receive(offer: String) {
        life.work("the offer could not be taken") { [self] in
            let connection = try publisher ?? makeConnection(.publisher)
            publisher = connection
            let answer: String
            do {
                answer = try connection.createAnswer(to: offer)
            } catch let error as PeerConnectionError where error.code == .rejected {
                return onEvent(.answered(sdp: try RejectingAnswer.sdp(to: offer), RoomLines()))
            }
            let codec = connection.negotiatedCodec
            // Build the receive chain before the answer is sent: packets must not arrive without it.
            if let codec, self.codec == nil { try receiveVideo(codec, from: connection) }
            if connection.audioDirection != nil, echo == nil {
                let echo = try AudioEcho(delay: painter.delay, viewers: painter.viewers)
                self.echo = echo
                life.own(echo.echoed)
                try echo.receive(from: connection, in: life.pipeline)
            }
            try send(to: connection)
            var lines = RoomLines()
            for (kind, direction) in [
                (MediaKind.video, connection.videoDirection), (.audio, connection.audioDirection),
            ] {
                if direction?.receives ?? false { lines.receiving.insert(kind) }
                if direction?.sends ?? false { lines.sending.insert(kind) }
                lines.sendMids[kind] = connection.sendMid(kind)
            }
            onEvent(.answered(sdp: answer, lines))
        }
    }

    func receive(answer: String) {
        life.work("the answer could not be taken") { [self] in
            guard let subscriber else { return }
            try subscriber.setAnswer(answer)
            subscriberIsAnswered = true
            try send(to: subscriber)
        }
    }

    /// Starts to send the transformed video and the audio on a connection that has negotiated them.
    private func send(to connection: PeerConnection) throws {
        if encoder == nil, !videoEchoIsSent, connection.videoDirection?.sends ?? false,
            let parameters = connection.sendParameters
        {
            try sendVideo(parameters, to: connection)
        }
        if !echoIsSent, connection.audioDirection?.sends ?? false, let parameters = connection.audioSendParameters,
            let echo
        {
            echoIsSent = true
            try echo.send(to: connection, parameters, in: life.pipeline)
        }
    }

    func offer(_ tracks: Set<MediaKind>) {
        life.work("the track could not be offered") { [self] in
            func direction(_ kind: MediaKind) -> MediaDirection { tracks.contains(kind) ? .sendrecv : .recvonly }
            if isSingle { publisher?.setMedia(video: direction(.video), audio: direction(.audio)) }
            guard let subscriber else { return }
            subscriber.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: tracks.contains(.audio) ? .sendonly : nil,
                codec: sentCodec ?? codec)
            onEvent(.offered(sdp: try subscriber.createOffer()))
        }
    }

    func restartICE(_ tracks: Set<MediaKind>) {
        life.work("ICE could not be restarted") { [self] in
            guard let subscriber else { return }
            // There is nothing to restart before the first answer: the participant gets the offer again.
            guard subscriberIsAnswered else { return firstOffer.map { onEvent(.offered(sdp: $0)) } ?? () }
            subscriber.rollbackOffer()
            subscriber.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: tracks.contains(.audio) ? .sendonly : nil,
                codec: sentCodec ?? codec)
            onEvent(.offered(sdp: try subscriber.createOffer(restartsICE: true, reason: "the participant resumes")))
        }
    }

    func moveVideo() {
        life.work("the video could not move") { [self] in subscriber?.moveVideo() }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        life.work("a candidate could not be taken") { [self] in
            (side == .publisher ? publisher : subscriber)?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        life.stop(
            cleanUp: { [self] in
                (publisher, subscriber, painted, encoder, videoEcho, echo) = (nil, nil, nil, nil, nil, nil)
            }, completion: completion)
    }

    // MARK: Pipeline

    private func makeConnection(_ side: RoomSide) throws -> PeerConnection {
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, options.bitrate)...options.bitrate
        configuration.acceptsDataChannels = true
        configuration.acceptsSimulcast = true
        // The subscriber's first offer has data channels only.
        configuration.direction = side == .publisher ? .recvonly : nil
        configuration.audio = side == .publisher ? .recvonly : nil
        configuration.answersEachSection = isSingle
        if options.echoesEncoded { EncodedEcho.prepare(&configuration) }
        configuration.msid = msid
        configuration.audioMSID = audioMSID
        return try life.connect(configuration) { [weak self] in self?.handle($0, side) }
    }

    private func receiveVideo(_ codec: VideoCodec, from connection: PeerConnection) throws {
        if options.echoesEncoded { return try echoVideo(codec, from: connection) }
        let decoder = try VideoDecoderBin.make(codec: codec, keepsTrailers: true)
        let painting = try PaintingBin(
            painter: painter, faults: faults, keepsTrailers: takesTrailers)
        painting.painted.setActive(true)
        painted = painting.painted
        life.own(painting.painted)
        self.codec = codec
        life.pipeline.add([decoder, painting.bin])
        try decoder.link(painting.bin)
        try connection.bin.link("rtp_src", to: decoder, "sink")
        painting.bin.syncStateWithParent()
        decoder.syncStateWithParent()
    }

    private func echoVideo(_ codec: VideoCodec, from connection: PeerConnection) throws {
        let echo = try EncodedEcho(codec, painter: painter, faults: faults)
        (videoEcho, self.codec) = (echo, codec)
        try echo.receive(from: connection, life)
    }

    private func sendVideo(_ parameters: RTPSendParameters, to connection: PeerConnection) throws {
        if let videoEcho {
            videoEchoIsSent = true
            return try videoEcho.send(parameters, to: connection, life)
        }
        let encoder = try VideoEncoderBin(
            parameters: parameters, bitrate: options.bitrate, carriesTrailers: takesTrailers)
        encoder.spoilFrames(while: faults)
        self.encoder = encoder
        life.pipeline.add(encoder.bin)
        try encoder.exit(faults, described: parameters.ssrc, in: life.pipeline).link(
            "src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        guard let painted, let sink = encoder.bin.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the encoder has no sink pad")
        }
        try painted.link(sink)
    }

    private func measure() {
        guard let source = publisher?.statistics(), let target = isSingle ? source : subscriber?.statistics() else {
            return
        }
        let received = meters.received.rate(source.allBytesReceived)
        let sent = meters.sent.rate(target.allBytesSent)
        let codec = codec?.encodingName
        painter.measure {
            ($0.receivedBitrate, $0.sentBitrate, $0.roundTripTime) = (received, sent, target.roundTripTime)
            $0.codec = codec ?? $0.codec
        }
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent, _ side: RoomSide) {
        switch event {
        case .localCandidate(let candidate):
            onEvent(.localCandidate(CandidateMessage(candidate), side))
        case .gatheringComplete:
            onEvent(.localCandidate(nil, side))
        case .stateChanged(.connected):
            onEvent(.connected(side))
        case .stateChanged(.failed(.closedByPeer)):
            // A client that leaves may close its connections before its leave message arrives.
            life.fail("\(side): \(PeerConnectionError.closedByPeer.message)", after: 2)
        case .stateChanged(.failed(let error)):
            life.fail("\(side): \(error.message)")
        case .bitrateTarget(let target):
            if side == .subscriber || isSingle { encoder?.setBitrate(min(target.target, options.bitrate)) }
        case .streamArrived(let rid):
            onEvent(.streamArrived(rid: rid))
        case .stateChanged, .iceConnected, .disconnected, .reconnected, .iceRestarted, .remoteBitrateEstimate,
            .codecArrived, .relaysMissing:
            break
        }
    }
}
