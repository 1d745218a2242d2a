// The media of a session's client. Directly, one connection receives its video and audio and sends the transformed video
// and the same audio back; in a room, another connection sends, unless a single one serves both directions. Decoder,
// painter, encoder and audio echo connect them in one pipeline, which grows as tracks are negotiated. It knows no WebSocket
// and no JSON.
//
// Threads: everything runs on the queue of `life`, never on the event loop; frames are painted on a streaming thread.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on the queue of `life` only.
final class GStreamerMedia: SessionMedia, @unchecked Sendable {
    private let life: MediaLifecycle
    private let options: MediaOptions
    private let painter: FramePainter
    private let faults: MediaFaults
    /// Nil: a direct connection.
    private let room: RoomTracks?
    private let isSingle: Bool
    private let takesTrailers: Bool
    private let onEvent: @Sendable (MediaSessionEvent) -> Void

    // MARK: State (queue)
    /// Receives the client's tracks, for which the client offers. A direct or single connection sends too.
    private var publisher: PeerConnection?
    private var subscriber: PeerConnection?
    private var firstOffer: String?
    private var subscriberIsAnswered = false
    private var codec: VideoCodec?
    /// Sends the received video back on a connection; nil before it is received, and once it is sent.
    private var sendVideo: ((RTPSendParameters, PeerConnection) throws -> Void)?
    private var encoder: VideoEncoderBin?
    /// The capsfilter that the RTP packets of `encoder` leave through.
    private var exit: Element?
    private var echo: AudioEcho?
    private var echoIsSent = false
    private var meters = (received: BitrateMeter(), sent: BitrateMeter())

    init(
        options: MediaOptions, painter: FramePainter, faults: MediaFaults, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        life = MediaLifecycle(
            label: "decart-standin.media", network: options.network, hasSides: room != nil, onEvent: onEvent)
        (self.options, self.painter, self.faults) = (options, painter, faults)
        (self.room, isSingle, takesTrailers) = (room, room?.isSingle ?? true, room?.takesTrailers ?? false)
        self.onEvent = onEvent
    }

    func start() {
        life.work("the media could not start") { [self] in
            if !isSingle { subscriber = try makeConnection(.subscriber) }
            life.onSecond = { [weak self] in self?.measure() }
            // Start before an answer is sent: packets must not arrive in a stopped pipeline.
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
            let isFirst = publisher == nil
            publisher = connection
            let answer: String
            do {
                answer = try connection.createAnswer(to: offer)
                // A participant may begin with audio or data.
                if room == nil, isFirst, connection.negotiatedCodec == nil {
                    throw PeerConnectionError(.rejected, "no video was negotiated")
                }
            } catch let error as PeerConnectionError where error.code == .rejected {
                return onEvent(.answered(sdp: try RejectingAnswer.sdp(to: offer), RoomLines()))
            }
            // Build the receive chain before the answer is sent: packets must not arrive without it.
            if let codec = connection.negotiatedCodec, self.codec == nil { try receiveVideo(codec, from: connection) }
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
            guard let connection = offering else { return }
            try connection.setAnswer(answer)
            subscriberIsAnswered = true
            try send(to: connection)
        }
    }

    /// The connection for which we offer.
    private var offering: PeerConnection? { room == nil ? publisher : subscriber }

    /// Starts to send the transformed video and the audio on a connection that has negotiated them.
    private func send(to connection: PeerConnection) throws {
        if connection.videoDirection?.sends ?? false, let parameters = connection.sendParameters,
            let send = sendVideo.take()
        {
            try send(parameters, connection)
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
            subscriber.send(tracks, codec: sentCodec ?? codec)
            onEvent(.offered(sdp: try subscriber.createOffer()))
        }
    }

    func restartICE(_ tracks: Set<MediaKind>) {
        life.work("ICE could not be restarted") { [self] in
            guard let subscriber else { return }
            // There is nothing to restart before the first answer: the participant gets the offer again.
            guard subscriberIsAnswered else { return firstOffer.map { onEvent(.offered(sdp: $0)) } ?? () }
            subscriber.rollbackOffer()
            subscriber.send(tracks, codec: sentCodec ?? codec)
            onEvent(.offered(sdp: try subscriber.createOffer(restartsICE: true, reason: "the participant resumes")))
        }
    }

    /// Nil: that of the received video.
    private var sentCodec: VideoCodec? {
        options.echoesEncoded || room?.codec?.installedEncoder == nil ? nil : room?.codec
    }

    func moveVideo() {
        life.work("the video could not move") { [self] in subscriber?.moveVideo() }
    }

    func restart(_ output: Fault.Output) {
        life.work("the output could not come back") { [self] in
            guard let publisher else { return }
            switch output {
            case .newSSRC:
                guard let exit else { return }
                try VideoEncoderBin.setSSRC(UInt32.random(in: 1...UInt32.max), at: exit)
                // Request a keyframe: the stream of a new SSRC begins with one, as another encoder's would.
                exit.staticPad("sink")?.push(Event.forceKeyUnitUpstream())
            case .offer, .newMID:
                if output == .newMID { publisher.moveVideo() }
                onEvent(.offered(sdp: try publisher.createOffer()))
            case .same, .republish, .newSID: break
            }
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        life.work("a candidate could not be taken") { [self] in
            (side == .publisher ? publisher : subscriber)?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        life.stop(
            cleanUp: { [self] in
                (publisher, subscriber, sendVideo, encoder, exit, echo) = (nil, nil, nil, nil, nil, nil)
            }, completion: completion)
    }

    // MARK: Pipeline

    private func makeConnection(_ side: RoomSide) throws -> PeerConnection {
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, options.bitrate)...options.bitrate
        if let room {
            configuration.acceptsDataChannels = true
            configuration.acceptsSimulcast = true
            // The subscriber's first offer has data channels only.
            configuration.direction = side == .publisher ? .recvonly : nil
            configuration.audio = side == .publisher ? .recvonly : nil
            configuration.answersEachSection = isSingle
            configuration.msid = room.msid
            configuration.audioMSID = room.audioMSID
        } else {
            configuration.audio = .sendrecv
        }
        if options.echoesEncoded { EncodedEcho.prepare(&configuration) }
        return try life.connect(configuration, side) { [weak self] target in
            guard let self, side == .subscriber || isSingle else { return }
            encoder?.setBitrate(min(target, options.bitrate))
        }
    }

    private func receiveVideo(_ codec: VideoCodec, from connection: PeerConnection) throws {
        self.codec = codec
        painter.measure { $0.codec = codec.encodingName }
        if options.echoesEncoded {
            let echo = try EncodedEcho(codec, painter: painter, faults: faults)
            sendVideo = { [life] in try echo.send($0, to: $1, life) }
            return try echo.receive(from: connection, life)
        }
        let decoder = try VideoDecoderBin.make(codec: codec, keepsTrailers: room != nil)
        let painting = try PaintingBin(painter: painter, faults: faults, keepsTrailers: takesTrailers)
        painting.painted.setActive(true)
        life.own(painting.painted)
        sendVideo = { [unowned self] in try encode(painting.painted, $0, to: $1) }
        life.pipeline.add([decoder, painting.bin])
        try decoder.link(painting.bin)
        try connection.bin.link("rtp_src", to: decoder, "sink")
        painting.bin.syncStateWithParent()
        decoder.syncStateWithParent()
    }

    private func encode(_ painted: Pad, _ parameters: RTPSendParameters, to connection: PeerConnection) throws {
        let encoder = try VideoEncoderBin(
            parameters: parameters, bitrate: options.bitrate, carriesTrailers: takesTrailers)
        encoder.spoilFrames(while: faults)
        self.encoder = encoder
        life.pipeline.add(encoder.bin)
        let exit = try encoder.exit(faults, described: parameters.ssrc, in: life.pipeline)
        self.exit = exit
        try exit.link("src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        try painted.link(encoder.bin.pad("sink"))
    }

    private func measure() {
        guard let source = publisher?.statistics(), let target = isSingle ? source : subscriber?.statistics() else {
            return
        }
        let received = meters.received.rate(source.allBytesReceived)
        let sent = meters.sent.rate(target.allBytesSent)
        painter.measure {
            ($0.receivedBitrate, $0.sentBitrate, $0.roundTripTime) = (received, sent, target.roundTripTime)
        }
    }
}
