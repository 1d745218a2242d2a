// The media of a room's participant: one connection receives its video and audio, another one sends the transformed
// video and the same audio. Decoder, painter, encoder and audio echo connect them in one pipeline, which grows as
// tracks are negotiated. If a single connection serves both directions, it is the publisher.
//
// Threads: everything runs on `queue`, never on the event loop; frames are painted on a streaming thread.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on `queue` only.
final class GStreamerRoomMedia: RoomMedia, @unchecked Sendable {
    private let queue = DispatchQueue(label: "decart-standin.room")
    private let bitrate: Int
    private let latency: Duration
    private let painter: FramePainter
    private let faults: MediaFaults
    private let msid: String
    private let audioMSID: String
    private let isSingle: Bool
    private let onEvent: @Sendable (RoomMediaEvent) -> Void

    // MARK: State (`queue`)
    private var pipeline: Pipeline?
    private var publisher: PeerConnection?
    private var subscriber: PeerConnection?
    private var codec: VideoCodec?
    private var painted: Pad?
    private var encoder: VideoEncoderBin?
    private var echo: SoundEcho?
    private var echoIsSent = false
    private var busTimer: (any DispatchSourceTimer)?
    private var isOver = false

    /// - Parameters:
    ///   - msid: `msid` of the video track.
    ///   - audioMSID: `msid` of the audio track.
    ///   - isSingle: One connection serves both directions; the participant makes all offers.
    init(
        bitrate: Int, latency: Duration, painter: FramePainter, faults: MediaFaults, msid: String, audioMSID: String,
        isSingle: Bool, onEvent: @escaping @Sendable (RoomMediaEvent) -> Void
    ) {
        self.bitrate = bitrate
        self.latency = latency
        self.painter = painter
        self.faults = faults
        self.msid = msid
        self.audioMSID = audioMSID
        self.isSingle = isSingle
        self.onEvent = onEvent
    }

    func start() {
        work("the room's media could not start") { [self] in
            GStreamerRuntime.initialise()
            let pipeline = Pipeline()
            self.pipeline = pipeline
            if !isSingle { subscriber = try makeConnection(.subscriber) }
            if let subscriber { pipeline.add(subscriber.bin) }
            guard pipeline.setState(.playing) != .failure else {
                throw PeerConnectionError(.wrongState, "the pipeline does not start")
            }
            busTimer = pipeline.watchBus(on: queue) { [weak self] words in self?.fail(words) }
            if let subscriber { onEvent(.offered(sdp: try subscriber.createOffer())) }
        }
    }

    func add(_ faults: [Fault]) { self.faults.add(faults) }

    func receive(offer: String) {
        work("the offer could not be taken") { [self] in
            let connection = try publisher ?? addPublisher()
            let answer = try connection.createAnswer(to: offer)
            let codec = connection.negotiatedCodec
            // Build the receive chain before the answer is sent: packets must not arrive without it.
            if let codec, self.codec == nil { try receiveVideo(codec, from: connection) }
            if connection.audioDirection != nil, echo == nil, let pipeline {
                let echo = try SoundEcho(delay: painter.delay)
                self.echo = echo
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
    }

    func receive(answer: String) {
        work("the answer could not be taken") { [self] in
            guard let subscriber else { return }
            try subscriber.setAnswer(answer)
            try send(to: subscriber)
        }
    }

    /// Starts to send the transformed video and the audio on a connection that has negotiated them.
    private func send(to connection: PeerConnection) throws {
        if encoder == nil, connection.videoDirection?.sends ?? false, let parameters = connection.sendParameters {
            try sendVideo(parameters, to: connection)
        }
        if !echoIsSent, connection.audioDirection?.sends ?? false, let parameters = connection.audioSendParameters,
            let echo,
            let pipeline
        {
            echoIsSent = true
            try echo.send(to: connection, parameters, in: pipeline)
        }
    }

    func offer(_ tracks: Set<MediaKind>) {
        work("the track could not be offered") { [self] in
            func direction(_ kind: MediaKind) -> MediaDirection { tracks.contains(kind) ? .sendrecv : .recvonly }
            if isSingle { publisher?.setMedia(video: direction(.video), audio: direction(.audio)) }
            guard let subscriber else { return }
            subscriber.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: tracks.contains(.audio) ? .sendonly : nil,
                codec: codec)
            onEvent(.offered(sdp: try subscriber.createOffer()))
        }
    }

    func moveVideo() {
        queue.async { [self] in subscriber?.moveVideo() }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        queue.async { [self] in
            (side == .publisher ? publisher : subscriber)?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isOver = true
            tearDown()
            completion()
        }
    }

    // MARK: Pipeline

    private func makeConnection(_ side: RoomSide) throws -> PeerConnection {
        var configuration = PeerConnectionConfiguration()
        configuration.jitterBufferLatency = latency
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        configuration.acceptsDataChannels = true
        configuration.acceptsSimulcast = true
        // The subscriber's first offer has data channels only.
        configuration.direction = side == .publisher ? .recvonly : nil
        configuration.audio = side == .publisher ? .recvonly : nil
        configuration.unidirectionalSections = isSingle
        configuration.msid = msid
        configuration.audioMSID = audioMSID
        // Candidates arrive while the description is still being created; `queue` delivers them after it.
        return try PeerConnection(configuration: configuration) { [weak self] event in
            guard let self else { return }
            self.queue.async { self.handle(event, side) }
        }
    }

    private func addPublisher() throws -> PeerConnection {
        let connection = try makeConnection(.publisher)
        publisher = connection
        pipeline?.add(connection.bin)
        connection.bin.syncStateWithParent()
        return connection
    }

    private func receiveVideo(_ codec: VideoCodec, from connection: PeerConnection) throws {
        let decoder = try VideoDecoderBin.make(codec: codec)
        let painting = try PaintingBin(painter: painter, faults: faults, latency: latency)
        painting.painted.setActive(true)
        painted = painting.painted
        self.codec = codec
        pipeline?.add([decoder, painting.bin])
        try decoder.link(painting.bin)
        try connection.bin.link("rtp_src", to: decoder, "sink")
        painting.bin.syncStateWithParent()
        decoder.syncStateWithParent()
    }

    private func sendVideo(_ parameters: RTPSendParameters, to connection: PeerConnection) throws {
        guard let pipeline else { return }
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: bitrate)
        encoder.spoilFrames(while: faults)
        self.encoder = encoder
        pipeline.add(encoder.bin)
        try encoder.exit(faults, described: parameters.ssrc, in: pipeline).link("src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        guard let painted, let sink = encoder.bin.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the encoder has no sink pad")
        }
        try painted.link(sink)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent, _ side: RoomSide) {
        guard !isOver else { return }
        switch event {
        case .localCandidate(let candidate):
            let message = CandidateMessage(candidate)
            onEvent(.localCandidate(message, side))
        case .gatheringComplete:
            onEvent(.localCandidate(nil, side))
        case .stateChanged(.connected):
            onEvent(.connected(side))
        case .stateChanged(.failed(.closedByPeer)):
            // A client that leaves may close its connections before its leave message arrives.
            queue.asyncAfter(deadline: .now() + .seconds(2)) { [weak self] in
                self?.fail("\(side): \(PeerConnectionError.closedByPeer.message)")
            }
        case .stateChanged(.failed(let error)):
            fail("\(side): \(error.message)")
        case .bitrateTarget(let target):
            if side == .subscriber || isSingle { encoder?.setBitrate(min(target.target, bitrate)) }
        case .streamArrived(let rid):
            onEvent(.streamArrived(rid: rid))
        case .stateChanged, .iceConnected, .remoteBitrateEstimate, .warning:
            break
        }
    }

    private func work(_ failure: String, _ body: @escaping @Sendable () throws -> Void) {
        queue.async { [self] in
            guard !isOver else { return }
            do {
                try body()
            } catch {
                fail("\(failure): \(error)")
            }
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
        let connections = [publisher, subscriber].compactMap { $0 }
        for connection in connections { connection.close() }
        painted?.setActive(false)
        echo?.echoed.setActive(false)
        pipeline?.setState(.null)
        for connection in connections {
            pipeline?.remove(connection.bin)
            connection.dismantle()
        }
        painted = nil
        echo = nil
        encoder = nil
        publisher = nil
        subscriber = nil
        pipeline = nil
    }
}
