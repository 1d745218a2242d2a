// The media of one viewer, over a direct connection or in a room: the session's painted frames, encoded for this viewer
// alone. Each stream therefore begins with a keyframe, and congestion at one viewer does not affect another. Frames that
// go back to the client as they came go to its viewers in the same way. Media faults act on the session, not on its
// viewers, and painted frames resume by themselves after a restart of the generation.
//
// Threads: everything runs on the queue of `life`, never on the event loop; frames arrive on the thread that painted them.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on the queue of `life` only.
final class ViewerMedia: SessionMedia, @unchecked Sendable {
    private let life: MediaLifecycle
    private let bitrate: Int
    private let viewers: Viewers
    /// Nil: a direct connection.
    private let room: RoomTracks?
    private let onEvent: @Sendable (MediaSessionEvent) -> Void

    // MARK: State (queue)
    private var connection: PeerConnection?
    private var firstOffer: String?
    private var isAnswered = false
    private var encoder: VideoEncoderBin?
    private var branches: [ViewerBranch] = []

    init(
        options: MediaOptions, viewers: Viewers, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        life = MediaLifecycle(label: "decart-standin.viewer", network: options.network, onEvent: onEvent)
        bitrate = options.bitrate
        (self.viewers, self.room, self.onEvent) = (viewers, room, onEvent)
    }

    // MARK: Negotiation

    /// Takes the first offer of a direct connection. In a room, only the room offers.
    func receive(offer: String) {
        life.work("the offer could not be taken") { [self] in
            guard connection == nil else { return }
            let connection = try makeConnection()
            let answer = try connection.createAnswer(to: offer)
            try sendFrames()
            try sendAudio()
            onEvent(.answered(sdp: answer))
        }
    }

    /// Starts in a room: connects the transport first; `offer` adds the track later.
    func start() {
        life.work("the viewer's media could not start") { [self] in
            let offer = try makeConnection().createOffer()
            firstOffer = offer
            onEvent(.offered(sdp: offer))
        }
    }

    /// Prefers H.264, as the service does.
    func offer(_ tracks: Set<MediaKind>) {
        life.work("the track could not be offered") { [self] in
            guard let connection else { return }
            connection.send(tracks, codec: codec)
            onEvent(.offered(sdp: try connection.createOffer()))
        }
    }

    func restartICE(_ tracks: Set<MediaKind>) {
        life.work("ICE could not be restarted") { [self] in
            guard let connection else { return }
            // There is nothing to restart before the first answer: the viewer gets the offer again.
            guard isAnswered else { return firstOffer.map { onEvent(.offered(sdp: $0)) } ?? () }
            connection.rollbackOffer()
            connection.send(tracks, codec: codec)
            onEvent(.offered(sdp: try connection.createOffer(restartsICE: true, reason: "the viewer resumes")))
        }
    }

    func moveVideo() {
        life.work("the video could not move") { [self] in connection?.moveVideo() }
    }

    func receive(answer: String) {
        life.work("the answer could not be taken") { [self] in
            guard let connection else { return }
            try connection.setAnswer(answer)
            isAnswered = true
            if connection.sendParameters != nil, !has(.video) { try sendFrames() }
            try sendAudio()
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        guard room == nil || side == .subscriber else { return }
        life.work("a candidate could not be taken") { [self] in
            connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        life.stop(
            cleanUp: { [self] in
                for branch in branches {
                    viewers.remove(branch)
                    branch.close()
                }
                (branches, encoder, connection) = ([], nil, nil)
            }, completion: completion)
    }

    // MARK: Pipeline

    private var codec: VideoCodec { viewers.encoded?.codec ?? (VideoCodec.h264.isAvailable ? .h264 : .vp8) }

    private func makeConnection() throws -> PeerConnection {
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        configuration.acceptsDataChannels = room != nil
        // In a room the first offer has data channels only.
        configuration.direction = room == nil ? .sendonly : nil
        configuration.msid = room?.msid
        configuration.audioMSID = room?.audioMSID
        configuration.audio = room == nil ? .sendonly : nil
        if let encoded = viewers.encoded {
            EncodedEcho.prepare(&configuration)
            configuration.usableCodecs = [encoded.codec]
        }
        let connection = try life.connect(configuration, .subscriber) { [weak self] target in
            guard let self else { return }
            encoder?.setBitrate(min(target, bitrate))
        }
        self.connection = connection
        try life.play()
        return connection
    }

    private func sendFrames() throws {
        guard let connection, let parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        if let source = viewers.encoded {
            let sender = try EncodedVideoBin.makeSender(parameters)
            return try send([sender], .encoded(source, into: sender), to: connection, "rtp_sink")
        }
        let takesTrailers = room?.takesTrailers ?? false
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: bitrate, carriesTrailers: takesTrailers)
        self.encoder = encoder
        let queue = try Element(factory: "queue")
        queue.set("leaky", "downstream")
        encoder.bin.staticPad("sink")?.dropFramesOfOtherCaps()
        queue.set("max-size-buffers", 3)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", 0)
        try send([queue, encoder.bin], .frames(into: queue, takesTrailers: takesTrailers), to: connection, "rtp_sink")
    }

    /// Sends the session's audio once it is negotiated; packets come while the session has any.
    private func sendAudio() throws {
        guard !has(.audio), let connection, connection.audioDirection?.sends ?? false,
            let parameters = connection.audioSendParameters
        else { return }
        let payloader = try OpusPayloader.make(parameters)
        try send([payloader], .audio(into: payloader), to: connection, "audio_rtp_sink")
    }

    private func has(_ kind: MediaKind) -> Bool { branches.contains { $0.kind == kind } }

    private func send(_ chain: [Element], _ branch: ViewerBranch, to connection: PeerConnection, _ sink: String) throws
    {
        branches.append(branch)
        life.pipeline.add(chain)
        try life.pipeline.linkChain(chain)
        try chain.last?.link("src", to: connection.bin, sink)
        for element in chain.reversed() { element.syncStateWithParent() }
        try branch.open()
        viewers.add(branch)
    }
}
