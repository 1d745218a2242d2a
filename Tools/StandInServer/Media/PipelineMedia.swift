// Queue, pipeline, connections, failure report and teardown, shared by the media of direct sessions, room participants and
// viewers.
//
// Threads: everything runs on `queue`, never on the connection's thread.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import RTP
import Synchronization
import WebRTCTransport

// @unchecked: mutable fields, those of subclasses too, are touched on `queue` only.
package class PipelineMedia: @unchecked Sendable {
    /// A client, and its feedback, may bring work faster than it is done.
    package static let maximumWaiting = 1024

    private let queue: DispatchQueue
    /// Work that waits on the queue; beyond the limit it is dropped, and the media end.
    private let waiting = Atomic(0)
    private let hasTooMuch = Atomic(false)
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
        DebianPackage.nameInErrors()
        return Pipeline()
    }()
    /// The connection for which the peer offers. A direct or single connection sends too.
    var publisher: PeerConnection?
    /// The connection for which the room offers.
    var subscriber: PeerConnection?
    /// The room's offers to the subscriber.
    private var lines: SubscriberLines
    /// Our peer connection's offer, which the participant's next answer answers; nil: it knows the answer to its latest one.
    private var ownOffer: SDPDescription?
    /// The offer that is not answered yet, for a participant that resumes.
    private var firstOffer: String?
    private var isAnswered = false
    /// The streams of the room's tracks.
    private var streams: [OutputTrack: OutputStream] = [:]
    /// The streams that our peer connection's descriptions name: the first track of each kind is sent on one. Nil: it was
    /// taken. A later track needs another SSRC, because SRTP accepts no packet number twice.
    private var describedStreams: [MediaKind: OutputStream?] = [:]
    /// Single connection: the tracks of the next answer, and their m-lines.
    private var wanted: [OutputTrack] = []
    private(set) var singleLines = SingleLines()
    /// Origin of our answers in a room.
    private let answerID = UInt64.random(in: 1...UInt64(Int64.max))
    private var answerVersion = UInt32(1)
    /// Room: the first mid of the participant's offers, which our candidates name.
    var candidateMid: String?
    private var funnels: [ObjectIdentifier: Element] = [:]
    var encoder: VideoEncoderBin?
    private var connections: [PeerConnection] = []
    private var pads: [Pad] = []
    private var busTimer: (any DispatchSourceTimer)?
    private var isOver = false

    /// - Parameters:
    ///   - role: Name of the peer in logs, and of the queue.
    ///   - hasSides: Two connections may exist: failures name theirs.
    ///   - onEvent: called with the log and the failure too, which comes once at most.
    package init(
        role: String, options: MediaOptions, room: RoomTracks?, hasSides: Bool = false,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        queue = DispatchQueue(label: "decart-standin.\(role)")
        (self.role, self.options, self.room, self.hasSides, self.onEvent) = (role, options, room, hasSides, onEvent)
        (isSingle, takesTrailers) = (room?.isSingle ?? true, room?.takesTrailers ?? false)
        lines = SubscriberLines(allowed: room?.allowedCodecs)
        loggers = TransportLoggers { onEvent(.logged($0)) }
    }

    // MARK: For subclasses (called on the queue)

    func receive(offer: String, _ codecs: PublishedCodecs) throws {}

    func restart(_ output: Fault.Output) throws {}

    /// Room: sends the video in another codec on the same m-line.
    func change(to codec: OutputCodec) throws {}

    func requestKeyframe() {}

    /// The payload type of a codec on the m-line of the subscriber's track.
    func payloadType(of codec: OutputCodec, for track: OutputTrack) -> Int? {
        lines.payloadType(of: codec, for: track)
    }

    /// The codec of the video that the room offers.
    var sentCodec: OutputCodec { OutputCodec("vp8") }

    /// Direct: starts to send what the connection has negotiated.
    func send(to connection: PeerConnection) throws {}

    /// Room: sends the tracks as the participant has taken them.
    func bind(_ bindings: [TrackBinding], to connection: PeerConnection) throws {}

    /// Room: the participant does not subscribe to these tracks any more.
    func unbind(_ tracks: Set<OutputTrack>, of connection: PeerConnection) {}

    /// Called each second while the pipeline plays.
    func secondPassed() {}

    /// Called once the connections are closed and before the pipeline stops.
    func cleanUp() {}

    // MARK: Negotiation

    package func perform(_ request: MediaRequest) {
        work(request.failure) { [self] in
            switch request {
            case .receiveOffer(let sdp, let codecs): try receive(offer: sdp, codecs)
            case .receiveAnswer(let sdp): try receive(answer: sdp)
            case .addCandidate(let candidate, let side):
                (side == .publisher ? publisher : subscriber)?.addRemoteCandidate(candidate.map(ICECandidate.init))
            case .restart(let output): try restart(output)
            case .offer(let tracks): offer(tracks)
            case .restartICE(let tracks): try restartICE(tracks)
            case .changeCodec(let codec): try change(to: codec)
            case .requestKeyframe: requestKeyframe()
            case .close: for connection in connections { connection.close() }
            case .moveVideo: lines.retire(.video)
            }
        }
    }

    private func receive(answer sdp: String) throws {
        guard room != nil else {
            try publisher?.setAnswer(sdp)
            return try publisher.map(send(to:)) ?? ()
        }
        guard let subscriber else { return }
        let answer = try SDPDescription(parsing: sdp)
        if let own = ownOffer.take() { try subscriber.setAnswer(SubscriberLines.ownAnswer(answer, to: own)) }
        (isAnswered, firstOffer) = (true, nil)
        let bindings = lines.answered(answer)
        try bind(bindings, to: subscriber)
        onEvent(.bound(bindings))
    }

    /// Offers the transport of the subscriber first; `offer` adds the tracks later.
    func makeFirstOffer() throws {
        guard let subscriber else { return }
        try takeOwnOffer(subscriber.createOffer())
        let text = lines.offer()
        firstOffer = text
        onEvent(.offered(sdp: text))
    }

    private func takeOwnOffer(_ text: String) throws {
        let own = try SDPDescription(parsing: text)
        ownOffer = own
        describe(own)
        lines.setTransport(own)
    }

    /// Keeps the streams that a description of our peer connection names.
    private func describe(_ own: SDPDescription) {
        for media in own.media {
            guard let kind = MediaKind(rawValue: media.kind), let stream = OutputStream(media) else { continue }
            if describedStreams[kind] == nil { describedStreams[kind] = .some(stream) }
        }
    }

    private func offer(_ tracks: [OutputTrack]) {
        guard !isSingle else {
            if let publisher { unbind(Set(wanted).subtracting(tracks), of: publisher) }
            return wanted = tracks
        }
        guard let subscriber else { return }
        unbind(Set(lines.tracks).subtracting(tracks), of: subscriber)
        lines.set(outputs(tracks, of: subscriber))
        onEvent(.offered(sdp: lines.offer(), mids: lines.mids.mapValues(\.sid)))
    }

    /// Answers an offer in a room. On a single connection, our tracks get their m-lines.
    /// - Parameter own: our peer connection's answer.
    func answer(
        _ offered: ClientOffer, _ own: SDPDescription, on connection: PeerConnection, _ lines: RoomLines
    ) throws {
        guard isSingle else { return onEvent(.answered(sdp: text(of: offered.answer(own: own)), lines)) }
        describe(own)
        let bindings = singleLines.place(outputs(wanted, of: connection), on: offered)
        var (lines, streams) = (lines, [String: OutputStream]())
        for kind in MediaKind.allCases { lines.sendMids[kind] = offered.receivingMids(kind.rawValue).first }
        for each in bindings {
            if let mid = singleLines.mids[each.track] { streams[mid] = each.stream }
            guard !each.track.isExtra else { continue }
            lines.sending.insert(each.track.kind)
            lines.sendMids[each.track.kind] = singleLines.mids[each.track]
        }
        let answer = offered.answer(own: own, streams: streams, used: singleLines.used)
        // As with LiveKit's servers, media follow their description, and an encoder takes long to start.
        onEvent(.answered(sdp: text(of: answer), lines))
        try bind(bindings, to: connection)
        onEvent(.bound(bindings))
    }

    func text(of answer: SDPDescription) -> String {
        answerVersion &+= 1
        return answer.text(sessionID: answerID, version: answerVersion)
    }

    private func restartICE(_ tracks: [OutputTrack]) throws {
        guard let subscriber else { return }
        // There is nothing to restart before the first answer: the peer gets the offer again.
        guard isAnswered else { return firstOffer.map { onEvent(.offered(sdp: $0)) } ?? () }
        subscriber.rollbackOffer()
        // LiveKit's servers close the TCP connections of a path in front of the offer that restarts it.
        subscriber.closeTCPPath()
        lines.set(outputs(tracks, of: subscriber))
        try takeOwnOffer(subscriber.createOffer(restartsICE: true, reason: "the \(role) resumes"))
        onEvent(.offered(sdp: lines.offer(), mids: lines.mids.mapValues(\.sid)))
    }

    // MARK: The room's tracks

    /// The tracks with their streams: each publication of a track has SSRCs of its own.
    func outputs(
        _ tracks: [OutputTrack], of connection: PeerConnection
    ) -> [(track: OutputTrack, stream: OutputStream, codec: OutputCodec)] {
        streams = streams.filter { tracks.contains($0.key) }
        return tracks.map { track in
            let stream = streams[track] ?? makeStream(of: track, connection)
            streams[track] = stream
            return (track, stream, codec(of: track))
        }
    }

    func codec(of track: OutputTrack) -> OutputCodec { track.kind == .audio ? .opus : sentCodec }

    private func makeStream(of track: OutputTrack, _ connection: PeerConnection) -> OutputStream {
        let msid = "\(track.participantSID ?? room?.participantSID ?? "")|\(track.sid) \(track.sid)"
        if !track.isExtra, case .some(var first?) = describedStreams[track.kind] {
            describedStreams[track.kind] = .some(nil)
            first.msid = msid
            return first
        }
        let ssrc = UInt32.random(in: 1..<UInt32.max)
        guard track.kind == .video else { return OutputStream(msid: msid, ssrc: ssrc, rtxSSRC: nil) }
        connection.addVideoStream(ssrc, retransmission: ssrc &+ 1)
        return OutputStream(msid: msid, ssrc: ssrc, rtxSSRC: ssrc &+ 1)
    }

    /// Starts to send a video track. Several may share a connection.
    /// - Parameter makeBin: makes what stands between the frames of `source` and their packets.
    func sendVideo(
        _ parameters: TrackParameters, from source: Pad, to connection: PeerConnection, faults: MediaFaults? = nil,
        after last: (sequence: UInt16, timestamp: UInt32)? = nil,
        makeBin: (TrackParameters) throws -> (bin: Bin, encoder: VideoEncoderBin?)
    ) throws -> TrackSender {
        let made = try makeBin(parameters)
        pipeline.add(made.bin)
        let exit = try made.bin.exit(faults, described: parameters.ssrc, in: pipeline)
        let sender = TrackSender(
            parameters, made.bin, encoder: made.encoder, exit: exit, funnel: try funnel(of: connection))
        if let last { sender.follow(last) }
        try sender.start(from: source, in: pipeline)
        return sender
    }

    private func funnel(of connection: PeerConnection) throws -> Element {
        if let funnel = funnels[ObjectIdentifier(connection)] { return funnel }
        let funnel = try Element(factory: "funnel")
        pipeline.add(funnel)
        try funnel.link("src", to: connection.bin, "rtp_sink")
        funnel.syncStateWithParent()
        funnels[ObjectIdentifier(connection)] = funnel
        return funnel
    }

    /// Sends the room's own frames at the end of a track.
    func sendFiller(_ codec: String, payloadType: Int, ssrc: UInt32, over connection: PeerConnection) {
        let isAudio = codec == "opus"
        guard let last = isAudio ? connection.lastAudioPacket(of: ssrc) : connection.lastVideoPacket(of: ssrc),
            let payload = FillerFrames.payload(codec, trailer: room?.fillerTrailer ?? [])
        else { return }
        let count = isAudio ? FillerFrames.audioCount : FillerFrames.videoCount
        let (interval, step) =
            isAudio ? (FillerFrames.audioInterval, 960) : (FillerFrames.videoInterval, 3000)
        for number in 1...count {
            let packet = FillerFrames.packet(
                payload, (payloadType, ssrc), number: number, after: last, step: step)
            let delay = interval * (number - 1)
            queue.asyncAfter(deadline: .now() + .nanoseconds(Int(delay / .nanoseconds(1)))) {
                [weak self, weak connection] in
                // The end of the session waits for no frame, and no frame keeps its connection.
                guard let self, let connection, !isOver else { return }
                if isAudio { connection.forge(audio: packet) } else { connection.forge(rtp: packet) }
                if number == count, !isAudio { connection.removeVideoStream(ssrc) }
            }
        }
    }

    /// Runs work on the queue, unless the media have ended.
    package func work(_ failure: String, _ body: @escaping @Sendable () throws -> Void) {
        guard waiting.wrappingAdd(1, ordering: .relaxed).newValue <= Self.maximumWaiting else {
            waiting.wrappingSubtract(1, ordering: .relaxed)
            return hasTooMuch.store(true, ordering: .relaxed)
        }
        queue.async { [self] in
            waiting.wrappingSubtract(1, ordering: .relaxed)
            guard !isOver else { return }
            guard !hasTooMuch.load(ordering: .relaxed) else {
                return fail("the client sends more than its media can take")
            }
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
        configuration.adaptsBitrate = options.adaptsBitrate
        if !options.adaptsBitrate { configuration.startBitrate = options.bitrate }
        configuration.loggers = loggers
        configuration.network = options.network
        configuration.acceptsDataChannels = room != nil
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
        case .localCandidate(var candidate):
            if side == .subscriber, room?.hidesCandidates == false, let text = lines.found(candidate.candidate) {
                candidate.candidate = text
            }
            if side == .publisher, let candidateMid {
                (candidate.sdpMid, candidate.sdpMLineIndex) = (candidateMid, 0)
            }
            onEvent(.localCandidate(CandidateMessage(candidate), side))
        case .gatheringComplete:
            if side == .subscriber { _ = lines.found(nil) }
            onEvent(.localCandidate(nil, side))
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
    package func stop(completion: @escaping @Sendable () -> Void) {
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
            (connections, pads, funnels) = ([], [], [:])
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
        case .changeCodec: "the codec could not change"
        case .moveVideo, .requestKeyframe, .close: "the video could not move"
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
