// The media of a session's client. Directly, one connection receives its video and audio and sends the transformed video
// and the same audio back; in a room, another connection sends, unless a single one serves both directions. Decoder,
// painter, encoder and audio echo connect them in one pipeline, which grows as tracks are negotiated. It knows no WebSocket
// and no JSON.
//
// Threads: as of `PipelineMedia`; frames are painted on a streaming thread.
import DecartProtocol
import GStreamerKit
import ICE
import RTP
import WebRTCTransport

// @unchecked: as `PipelineMedia`.
final class GStreamerMedia: PipelineMedia, SessionMedia, @unchecked Sendable {
    private let painter: FramePainter
    private let faults: MediaFaults

    // MARK: State (queue)
    private var codec: VideoCodec?
    /// Where the transformed frames come from; nil before video is received.
    private var frames: Pad?
    private var video: (binding: TrackBinding?, sender: TrackSender)?
    private var extra: (binding: TrackBinding, sender: TrackSender, source: Bin)?
    /// The codec that a fault has changed to.
    private var changedCodec: OutputCodec?
    private var latestOffer: ClientOffer?
    private var echo: AudioEcho?
    private var audio: (binding: TrackBinding?, payloader: Element)?
    private var meters = (received: BitrateMeter(), sent: BitrateMeter())
    /// Packets that redundancy has replaced, as logged.
    private var replacedPackets: UInt64 = 0

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
        if isSingle, room != nil, let sent = offered?.sentKinds {
            // Before the first video of the participant, its codec is not known.
            func direction(_ kind: MediaKind) -> MediaDirection { sent.contains(kind.rawValue) ? .sendrecv : .recvonly }
            connection.setMedia(video: direction(.video), audio: direction(.audio))
        }
        (candidateMid, latestOffer) = (offered?.firstMid, offered)
        let answer: String
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
        // Build the receive chain before the answer is sent: packets must not arrive without it.
        if let codec = connection.negotiatedCodec, self.codec == nil { try receiveVideo(codec, from: connection) }
        if connection.audioDirection != nil, echo == nil {
            let echo = try AudioEcho(delay: painter.delay, viewers: painter.viewers)
            self.echo = echo
            own(echo.echoed)
            try echo.receive(from: connection, in: pipeline)
        }
        var lines = RoomLines()
        for (kind, direction) in [
            (MediaKind.video, connection.videoDirection), (.audio, connection.audioDirection),
        ] where direction?.receives ?? false { lines.receiving.insert(kind) }
        if let offered {
            lines.published = offered.published.mapValues { RoomLines.Published(mid: $0.mid, codec: $0.codec) }
            try self.answer(offered, SDPDescription(parsing: answer), on: connection, lines)
        } else {
            try send(to: connection)
            onEvent(.answered(sdp: answer, lines))
        }
    }

    /// Direct: starts to send the transformed video and the audio.
    override func send(to connection: PeerConnection) throws {
        if video == nil, connection.videoDirection?.sends ?? false, let sent = connection.sendParameters, let frames {
            let parameters = TrackParameters(
                codec: OutputCodec(sent.codec.rawValue), payloadType: sent.payloadType, ssrc: sent.ssrc)
            video = (nil, try startVideo(parameters, from: frames, to: connection))
        }
        if audio == nil, connection.audioDirection?.sends ?? false, let parameters = connection.audioSendParameters,
            let echo
        {
            audio = (nil, try echo.send(to: connection, parameters, in: pipeline))
        }
    }

    /// Sends each track that is not sent as its binding says.
    override func bind(_ bindings: [TrackBinding], to connection: PeerConnection) throws {
        for binding in bindings {
            guard let type = binding.payloadType else { continue }
            let parameters = TrackParameters(
                codec: codec(of: binding.track), payloadType: type, ssrc: binding.stream.ssrc)
            switch binding.track.kind {
            case .video where binding.track.isExtra:
                guard extra?.binding != binding else { continue }
                try startExtra(binding, parameters, connection)
            case .video:
                guard video?.binding != binding, let frames else { continue }
                video?.sender.stop(in: pipeline)
                let sender = try startVideo(parameters, from: frames, to: connection)
                video = (binding, sender)
                sender.onFirstFrame { [onEvent] in onEvent(.started(binding.track)) }
            case .audio:
                guard audio?.binding != binding, let echo, let sent = binding.audio else { continue }
                if let former = audio?.payloader { echo.stop(former, in: pipeline) }
                audio = (binding, try echo.send(to: connection, sent, in: pipeline))
            }
        }
    }

    override func unbind(_ tracks: Set<OutputTrack>, of connection: PeerConnection) {
        if let (binding, sender) = video, let binding, tracks.contains(binding.track) {
            video = nil
            end(sender, connection)
        }
        if let (binding, sender, source) = extra, tracks.contains(binding.track) {
            extra = nil
            end(sender, connection)
            pipeline.takeOut([source])
        }
        if let (binding, payloader) = audio, let binding, tracks.contains(binding.track) {
            audio = nil
            echo?.stop(payloader, in: pipeline)
            if let type = binding.payloadType {
                sendFiller("opus", payloadType: type, ssrc: binding.stream.ssrc, over: connection)
            }
        }
    }

    private func end(_ sender: TrackSender, _ connection: PeerConnection) {
        if sender.encoder === encoder { encoder = nil }
        sender.stop(in: pipeline)
        let parameters = sender.parameters
        sendFiller(parameters.codec.name, payloadType: parameters.payloadType, ssrc: parameters.ssrc, over: connection)
    }

    /// The room's, if it can be encoded here, else that of the received video.
    override var sentCodec: OutputCodec {
        if let changedCodec { return changedCodec }
        if !options.echoesEncoded, let codec = room?.codec, codec.isEncodable { return codec }
        return OutputCodec((codec ?? .vp8).rawValue)
    }

    override func restart(_ output: Fault.Output) throws {
        guard let publisher else { return }
        switch output {
        case .newSSRC:
            guard let exit = video?.sender.exit else { return }
            try VideoEncoderBin.setSSRC(UInt32.random(in: 1...UInt32.max), at: exit)
            // Request a keyframe: the stream of a new SSRC begins with one, as another encoder's would.
            exit.staticPad("sink")?.push(Event.forceKeyUnitUpstream())
        case .offer, .newMID:
            if output == .newMID { publisher.moveVideo() }
            onEvent(.offered(sdp: try publisher.createOffer()))
        case .same, .republish, .newSID: break
        }
    }

    override func change(to codec: OutputCodec) throws {
        guard codec.isEncodable, !options.echoesEncoded, let (former, sender) = video, let former, let frames,
            let connection = isSingle ? publisher : subscriber
        else { return }
        let mid = singleLines.mids[former.track]
        guard
            let type = isSingle
                ? mid.flatMap({ latestOffer?.payloadType(of: codec, at: $0) })
                : payloadType(of: codec, for: former.track)
        else { return onEvent(.logged("the participant does not take \(codec.name)")) }
        changedCodec = codec
        let parameters = TrackParameters(codec: codec, payloadType: type, ssrc: former.stream.ssrc)
        sender.stop(in: pipeline)
        let next = try startVideo(
            parameters, from: frames, to: connection, after: connection.lastVideoPacket(of: former.stream.ssrc))
        video = (TrackBinding(former.track, former.stream, payloadType: type), next)
    }

    override func requestKeyframe() { video?.sender.exit.staticPad("sink")?.push(Event.forceKeyUnitUpstream()) }

    override func cleanUp() { (frames, video, extra, audio, echo) = (nil, nil, nil, nil, nil) }

    // MARK: Pipeline

    private func makeConnection(_ side: RoomSide) throws -> PeerConnection {
        try connect(side) { configuration in
            if room != nil {
                configuration.acceptsSimulcast = true
                if side == .subscriber { configuration.sendsRoomTracks() }
                configuration.direction = side == .publisher ? .recvonly : .sendonly
                configuration.audio = side == .publisher ? .recvonly : .sendonly
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
            own(echo.echoed)
            frames = echo.echoed
            return try echo.receive(from: connection, self)
        }
        let decoder = try VideoDecoderBin.make(codec: codec, keepsTrailers: room != nil)
        let painting = try PaintingBin(
            painter: painter, faults: faults, keepsTrailers: takesTrailers,
            trailersHaveTimeAlone: room?.trailersHaveTimeAlone ?? false)
        own(painting.painted)
        frames = painting.painted
        pipeline.add([decoder, painting.bin])
        try decoder.link(painting.bin)
        try connection.bin.link("rtp_src", to: decoder, "sink")
        painting.bin.syncStateWithParent()
        decoder.syncStateWithParent()
    }

    private func startVideo(
        _ parameters: TrackParameters, from frames: Pad, to connection: PeerConnection,
        after last: (sequence: UInt16, timestamp: UInt32)? = nil
    ) throws -> TrackSender {
        let sender = try sendVideo(parameters, from: frames, to: connection, faults: faults, after: last) {
            parameters in
            if options.echoesEncoded, let rtp = parameters.rtp { return (try EncodedVideoBin.makeSender(rtp), nil) }
            let made = try parameters.makeEncoder(bitrate: options.bitrate)
            made.encoder?.spoilFrames(while: faults)
            return made
        }
        encoder = sender.encoder
        return sender
    }

    /// A track with frames of one colour, so that a client that shows the wrong track is seen.
    private func startExtra(
        _ binding: TrackBinding, _ parameters: TrackParameters, _ connection: PeerConnection
    ) throws {
        let source = try Bin(
            description: """
                videotestsrc is-live=true pattern=solid-color foreground-color=0xffff00ff \
                ! video/x-raw,format=I420,width=320,height=240,framerate=15/1 ! identity
                """, ghostUnlinkedPads: true)
        pipeline.add(source)
        let sender = try sendVideo(parameters, from: source.pad("src"), to: connection) {
            try $0.makeEncoder(bitrate: 300_000)
        }
        source.syncStateWithParent()
        extra = (binding, sender, source)
        sender.onFirstFrame { [onEvent] in onEvent(.started(binding.track)) }
    }

    override func secondPassed() {
        guard let source = publisher?.statistics(), let target = isSingle ? source : subscriber?.statistics() else {
            return
        }
        if let replaced = source.audio?.packetsRecovered, replaced != replacedPackets {
            onEvent(.logged("redundant audio has replaced \(replaced) packets"))
            replacedPackets = replaced
        }
        let received = meters.received.rate(source.allBytesReceived)
        let sent = meters.sent.rate(target.allBytesSent)
        painter.measure {
            ($0.receivedBitrate, $0.sentBitrate, $0.roundTripTime) = (received, sent, target.roundTripTime)
        }
    }
}
