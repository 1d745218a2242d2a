// The media of a session's client. Directly, one connection receives its video and audio and sends the transformed video
// and the same audio back; in a room, another connection sends, unless a single one serves both directions. Decoder,
// painter, encoder and audio echo connect them in one pipeline, which grows as tracks are negotiated. It knows no WebSocket
// and no JSON.
//
// Threads: as of `PipelineMedia`; frames are painted on a streaming thread.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: as `PipelineMedia`.
final class GStreamerMedia: PipelineMedia, SessionMedia, @unchecked Sendable {
    private let painter: FramePainter
    private let faults: MediaFaults

    // MARK: State (queue)
    private var codec: VideoCodec?
    /// Sends the received video back on a connection; nil before it is received, and once it is sent.
    private var sendVideo: ((RTPSendParameters, PeerConnection) throws -> Void)?
    /// The capsfilter that the RTP packets of `encoder` leave through.
    private var exit: Element?
    private var echo: AudioEcho?
    private var echoIsSent = false
    /// Origin of our answers in a room.
    private let answerID = UInt64.random(in: 1...UInt64(Int64.max))
    private var answerVersion = UInt32(1)
    private var meters = (received: BitrateMeter(), sent: BitrateMeter())

    init(
        options: MediaOptions, painter: FramePainter, faults: MediaFaults, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        (self.painter, self.faults) = (painter, faults)
        super.init(role: "participant", options: options, room: room, hasSides: room != nil, onEvent: onEvent)
    }

    func start() {
        work("the media could not start") { [self] in
            if !isSingle { subscriber = try makeConnection(.subscriber) }
            // Start before an answer is sent: packets must not arrive in a stopped pipeline.
            try play()
            try makeFirstOffer()
        }
    }

    func add(_ faults: [Fault]) { self.faults.add(faults) }

    override func receive(offer: String, _ codecs: PublishedCodecs) throws {
        let connection = try publisher ?? makeConnection(.publisher)
        let isFirst = publisher == nil
        publisher = connection
        let offered = try room.map { try ClientOffer(parsing: offer, codecs, isSingle: $0.isSingle) }
        var answer: String
        do {
            answer = try connection.createAnswer(to: offered?.normalised ?? offer)
            // A participant may begin with audio or data.
            if room == nil, isFirst, connection.negotiatedCodec == nil {
                throw PeerConnectionError(.rejected, "no video was negotiated")
            }
        } catch let error as PeerConnectionError where error.code == .rejected {
            let rejection = try offered.map { text(of: $0.answer(own: nil)) } ?? RejectingAnswer.sdp(to: offer)
            return onEvent(.answered(sdp: rejection, RoomLines()))
        }
        if let offered { answer = text(of: offered.answer(own: try SDPDescription(parsing: answer))) }
        // Build the receive chain before the answer is sent: packets must not arrive without it.
        if let codec = connection.negotiatedCodec, self.codec == nil { try receiveVideo(codec, from: connection) }
        if connection.audioDirection != nil, echo == nil {
            let echo = try AudioEcho(
                delay: painter.delay, viewers: painter.viewers, redundantType: offered?.redundantAudioType)
            self.echo = echo
            own(echo.echoed)
            try echo.receive(from: connection, in: pipeline)
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

    private func text(of description: SDPDescription) -> String {
        answerVersion &+= 1
        return description.text(sessionID: answerID, version: answerVersion)
    }

    /// Starts to send the transformed video and the audio on a connection that has negotiated them.
    override func send(to connection: PeerConnection) throws {
        if connection.videoDirection?.sends ?? false, let parameters = connection.sendParameters,
            let send = sendVideo.take()
        {
            try send(parameters, connection)
        }
        if !echoIsSent, connection.audioDirection?.sends ?? false, let parameters = connection.audioSendParameters,
            let echo
        {
            echoIsSent = true
            try echo.send(to: connection, parameters, in: pipeline)
        }
    }

    override func offer(_ tracks: Set<MediaKind>) throws {
        guard isSingle else { return try super.offer(tracks) }
        func direction(_ kind: MediaKind) -> MediaDirection { tracks.contains(kind) ? .sendrecv : .recvonly }
        publisher?.setMedia(video: direction(.video), audio: direction(.audio))
    }

    /// The room's, if it can be encoded here, else that of the received video.
    override var sentCodec: VideoCodec? {
        options.echoesEncoded || room?.codec?.installedEncoder == nil ? codec : room?.codec
    }

    override func restart(_ output: Fault.Output) throws {
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

    override func cleanUp() { (sendVideo, exit, echo) = (nil, nil, nil) }

    // MARK: Pipeline

    private func makeConnection(_ side: RoomSide) throws -> PeerConnection {
        try connect(side) { configuration in
            if room != nil {
                configuration.acceptsSimulcast = true
                // The subscriber's first offer has data channels only.
                configuration.direction = side == .publisher ? .recvonly : nil
                configuration.audio = side == .publisher ? .recvonly : nil
                configuration.answersEachSection = isSingle
            } else {
                configuration.audio = .sendrecv
            }
            if options.echoesEncoded { EncodedEcho.prepare(&configuration) }
        }
    }

    private func receiveVideo(_ codec: VideoCodec, from connection: PeerConnection) throws {
        self.codec = codec
        painter.measure { $0.codec = codec.encodingName }
        if options.echoesEncoded {
            let echo = try EncodedEcho(codec, painter: painter, faults: faults)
            sendVideo = { [unowned self] in try echo.send($0, to: $1, self) }
            return try echo.receive(from: connection, self)
        }
        let decoder = try VideoDecoderBin.make(codec: codec, keepsTrailers: room != nil)
        let painting = try PaintingBin(painter: painter, faults: faults, keepsTrailers: takesTrailers)
        own(painting.painted)
        sendVideo = { [unowned self] in try encode(painting.painted, $0, to: $1) }
        pipeline.add([decoder, painting.bin])
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
        pipeline.add(encoder.bin)
        let exit = try encoder.exit(faults, described: parameters.ssrc, in: pipeline)
        self.exit = exit
        try exit.link("src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        try painted.link(encoder.bin.pad("sink"))
    }

    override func secondPassed() {
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
