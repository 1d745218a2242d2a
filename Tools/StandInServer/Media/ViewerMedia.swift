// The media of one viewer, over a direct connection or in a room: the session's painted frames, encoded for this viewer
// alone. Each stream therefore begins with a keyframe, and congestion at one viewer does not affect another. Frames that
// go back to the client as they came go to its viewers in the same way. Media faults act on the session, not on its
// viewers, and painted frames resume by themselves after a restart of the generation.
//
// Threads: as of `PipelineMedia`; frames arrive on the thread that painted them.
import DecartProtocol
import GStreamerKit
import ICE
import RTP
import WebRTCTransport

// @unchecked: as `PipelineMedia`.
final class ViewerMedia: PipelineMedia, SessionMedia, @unchecked Sendable {
    private let viewers: Viewers
    // State (queue).
    private var branches: [ViewerBranch] = []
    private var chains: [MediaKind: [Element]] = [:]
    private var bound: [TrackBinding] = []

    init(
        options: MediaOptions, viewers: Viewers, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        self.viewers = viewers
        super.init(role: "viewer", options: options, room: room, onEvent: onEvent)
    }

    // MARK: Negotiation

    /// Takes the first offer of a direct connection, or the offers in a room.
    override func receive(offer: String, _ codecs: PublishedCodecs) throws {
        let isFirst = publisher == nil
        let connection = try publisher ?? makeConnection(.publisher)
        publisher = connection
        guard room != nil else {
            guard isFirst else { return }
            let answer = try connection.createAnswer(to: offer)
            guard connection.sendParameters != nil else {
                throw PeerConnectionError(.rejected, "no video was negotiated")
            }
            try send(to: connection)
            return onEvent(.answered(sdp: answer))
        }
        var codecs = codecs
        if isSingle { codecs.preferred = sentCodec.name }
        let offered = try ClientOffer(parsing: offer, codecs, isSingle: isSingle)
        candidateMid = offered.firstMid
        let own = try SDPDescription(parsing: connection.createAnswer(to: offered.normalised))
        try answer(offered, own, on: connection, RoomLines())
    }

    /// Starts in a room.
    func start() {
        work("the viewer's media could not start") { [self] in
            guard !isSingle else { return }
            subscriber = try makeConnection(.subscriber)
            try makeFirstOffer()
        }
    }

    override func cleanUp() {
        for branch in branches { close(branch) }
        branches = []
    }

    private func close(_ branch: ViewerBranch) {
        viewers.remove(branch)
        branch.close()
    }

    // MARK: Pipeline

    /// Prefers H.264, as the service does.
    override var sentCodec: OutputCodec {
        OutputCodec((viewers.encoded?.codec ?? (VideoCodec.h264.isAvailable ? .h264 : .vp8)).rawValue)
    }

    private func makeConnection(_ side: RoomSide) throws -> PeerConnection {
        if side == .publisher, !isSingle {
            // A viewer publishes nothing, but its client connects this side too, for data channels.
            return try connect(side) { ($0.direction, $0.audio) = (.recvonly, nil) }
        }
        let connection = try connect(side) { configuration in
            configuration.direction = .sendonly
            configuration.audio = .sendonly
            configuration.answersEachSection = side == .publisher && room != nil
            if side == .subscriber { configuration.sendsRoomTracks() }
            if let encoded = viewers.encoded {
                EncodedEcho.prepare(&configuration)
                if side == .publisher { configuration.usableCodecs = [encoded.codec] }
            }
        }
        try play()
        return connection
    }

    override func send(to connection: PeerConnection) throws {
        if let sent = connection.sendParameters, !has(.video) {
            try sendFrames(
                TrackParameters(
                    codec: OutputCodec(sent.codec.rawValue), payloadType: sent.payloadType, ssrc: sent.ssrc),
                to: connection)
        }
        // Packets come while the session has any.
        if let parameters = connection.audioSendParameters, connection.audioDirection?.sends ?? false, !has(.audio) {
            try sendAudio(parameters, to: connection)
        }
    }

    override func bind(_ bindings: [TrackBinding], to connection: PeerConnection) throws {
        for binding in bindings where !bound.contains(binding) {
            guard let type = binding.payloadType else { continue }
            stop(binding.track.kind)
            bound.append(binding)
            switch binding.track.kind {
            case .video:
                try sendFrames(
                    TrackParameters(codec: codec(of: binding.track), payloadType: type, ssrc: binding.stream.ssrc),
                    to: connection)
            case .audio:
                if let parameters = binding.audio { try sendAudio(parameters, to: connection) }
            }
        }
    }

    override func unbind(_ tracks: Set<OutputTrack>, of connection: PeerConnection) {
        for binding in bound where tracks.contains(binding.track) {
            stop(binding.track.kind)
            guard let type = binding.payloadType else { continue }
            sendFiller(
                codec(of: binding.track).name, payloadType: type, ssrc: binding.stream.ssrc, over: connection)
        }
    }

    private func stop(_ kind: MediaKind) {
        bound.removeAll { $0.track.kind == kind }
        for branch in branches where branch.kind == kind { close(branch) }
        branches.removeAll { $0.kind == kind }
        if let chain = chains.removeValue(forKey: kind) { pipeline.takeOut(chain) }
    }

    private func sendFrames(_ parameters: TrackParameters, to connection: PeerConnection) throws {
        if let source = viewers.encoded, let rtp = parameters.rtp {
            let sender = try EncodedVideoBin.makeSender(rtp)
            return try send([sender], .encoded(source, into: sender), to: connection, "rtp_sink")
        }
        let made = try parameters.makeEncoder(bitrate: options.bitrate)
        self.encoder = made.encoder
        let queue = try Element(factory: "queue")
        queue.set("leaky", "downstream")
        made.bin.staticPad("sink")?.dropFramesOfOtherCaps()
        queue.set("max-size-buffers", 3)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", 0)
        try send([queue, made.bin], .frames(into: queue, takesTrailers: takesTrailers), to: connection, "rtp_sink")
    }

    private func sendAudio(_ parameters: AudioSendParameters, to connection: PeerConnection) throws {
        let payloader = try OpusPayloader.make(parameters)
        try send([payloader], .audio(into: payloader), to: connection, "audio_rtp_sink")
    }

    private func has(_ kind: MediaKind) -> Bool { branches.contains { $0.kind == kind } }

    private func send(_ chain: [Element], _ branch: ViewerBranch, to connection: PeerConnection, _ sink: String) throws
    {
        branches.append(branch)
        chains[branch.kind] = chain
        pipeline.add(chain)
        try pipeline.linkChain(chain)
        try chain.last?.link("src", to: connection.bin, sink)
        for element in chain.reversed() { element.syncStateWithParent() }
        try branch.open()
        viewers.add(branch)
    }
}
