// The media of one viewer, over a direct connection or in a room: the session's painted frames, encoded for this viewer
// alone. Each stream therefore begins with a keyframe, and congestion at one viewer does not affect another. Frames that
// go back to the client as they came go to its viewers in the same way. Media faults act on the session, not on its
// viewers, and painted frames resume by themselves after a restart of the generation.
//
// Threads: as of `PipelineMedia`; frames arrive on the thread that painted them.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: as `PipelineMedia`.
final class ViewerMedia: PipelineMedia, SessionMedia, @unchecked Sendable {
    private let viewers: Viewers
    // State (queue).
    private var branches: [ViewerBranch] = []

    init(
        options: MediaOptions, viewers: Viewers, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        self.viewers = viewers
        super.init(role: "viewer", options: options, room: room, onEvent: onEvent)
    }

    // MARK: Negotiation

    /// Takes the first offer of a direct connection. In a room, only the room offers.
    override func receive(offer: String, _ codecs: PublishedCodecs) throws {
        guard publisher == nil, subscriber == nil else { return }
        let connection = try makeConnection()
        publisher = connection
        let answer = try connection.createAnswer(to: offer)
        guard connection.sendParameters != nil else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        try send(to: connection)
        onEvent(.answered(sdp: answer))
    }

    /// Starts in a room.
    func start() {
        work("the viewer's media could not start") { [self] in
            subscriber = try makeConnection()
            try makeFirstOffer()
        }
    }

    override func cleanUp() {
        for branch in branches {
            viewers.remove(branch)
            branch.close()
        }
        branches = []
    }

    // MARK: Pipeline

    /// Prefers H.264, as the service does.
    override var sentCodec: VideoCodec? { viewers.encoded?.codec ?? (VideoCodec.h264.isAvailable ? .h264 : .vp8) }

    private func makeConnection() throws -> PeerConnection {
        let connection = try connect(.subscriber) { configuration in
            // In a room the first offer has data channels only.
            configuration.direction = room == nil ? .sendonly : nil
            configuration.audio = room == nil ? .sendonly : nil
            if let encoded = viewers.encoded {
                EncodedEcho.prepare(&configuration)
                configuration.usableCodecs = [encoded.codec]
            }
        }
        try play()
        return connection
    }

    override func send(to connection: PeerConnection) throws {
        if let parameters = connection.sendParameters, !has(.video) { try sendFrames(parameters, to: connection) }
        // Packets come while the session has any.
        if let parameters = connection.audioSendParameters, connection.audioDirection?.sends ?? false, !has(.audio) {
            let payloader = try OpusPayloader.make(parameters)
            try send([payloader], .audio(into: payloader), to: connection, "audio_rtp_sink")
        }
    }

    private func sendFrames(_ parameters: RTPSendParameters, to connection: PeerConnection) throws {
        if let source = viewers.encoded {
            let sender = try EncodedVideoBin.makeSender(parameters)
            return try send([sender], .encoded(source, into: sender), to: connection, "rtp_sink")
        }
        let encoder = try VideoEncoderBin(
            parameters: parameters, bitrate: options.bitrate, carriesTrailers: takesTrailers)
        self.encoder = encoder
        let queue = try Element(factory: "queue")
        queue.set("leaky", "downstream")
        encoder.bin.staticPad("sink")?.dropFramesOfOtherCaps()
        queue.set("max-size-buffers", 3)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", 0)
        try send([queue, encoder.bin], .frames(into: queue, takesTrailers: takesTrailers), to: connection, "rtp_sink")
    }

    private func has(_ kind: MediaKind) -> Bool { branches.contains { $0.kind == kind } }

    private func send(_ chain: [Element], _ branch: ViewerBranch, to connection: PeerConnection, _ sink: String) throws
    {
        branches.append(branch)
        pipeline.add(chain)
        try pipeline.linkChain(chain)
        try chain.last?.link("src", to: connection.bin, sink)
        for element in chain.reversed() { element.syncStateWithParent() }
        try branch.open()
        viewers.add(branch)
    }
}
