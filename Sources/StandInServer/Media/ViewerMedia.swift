// The media of one viewer, over a direct connection or in a room: the session's painted frames, encoded for this viewer
// alone. Each stream therefore begins with a keyframe, and congestion at one viewer does not affect another. Frames that
// go back to the client as they came go to its viewers in the same way.
//
// Threads: everything runs on the queue of `life`, never on the event loop; frames arrive on the thread that painted them.
import DecartProtocol
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on the queue of `life` only.
final class ViewerMedia: MediaSession, RoomMedia, @unchecked Sendable {
    enum Event: Sendable {
        case offered(sdp: String)
        case answered(sdp: String)
        case localCandidate(CandidateMessage?)
        case connected
        case logged(String)
        case failed(String)
    }

    private let life: MediaLifecycle
    private let bitrate: Int
    private let viewers: Viewers
    private let msid: String?
    private let audioMSID: String?
    private let takesTrailers: Bool
    private let onEvent: @Sendable (Event) -> Void

    // MARK: State (queue)
    private var connection: PeerConnection?
    private var firstOffer: String?
    private var isAnswered = false
    private var encoder: VideoEncoderBin?
    private var screen: ViewerScreen?
    /// Set instead of `screen` and `encoder` for frames that are not decoded.
    private var encodedScreen: EncodedScreen?
    private var speaker: ViewerSpeaker?

    /// - Parameters:
    ///   - msid: `msid` of the video track in a room; nil: direct connection.
    ///   - audioMSID: `msid` of the audio track in a room.
    ///   - takesTrailers: The viewer gets the trailers of the frames.
    init(
        bitrate: Int, ports: ClosedRange<UInt16>?, viewers: Viewers, msid: String? = nil, audioMSID: String? = nil,
        takesTrailers: Bool = false,
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        self.audioMSID = audioMSID
        self.takesTrailers = takesTrailers
        life = MediaLifecycle(
            label: "decart-standin.viewer", ports: ports, onLog: { onEvent(.logged($0)) },
            onFailure: { onEvent(.failed($0)) })
        self.bitrate = bitrate
        self.viewers = viewers
        self.msid = msid
        self.onEvent = onEvent
    }

    // MARK: Negotiation

    /// Starts a direct connection.
    func start(answering offer: String) {
        life.work("the offer could not be taken") { [self] in
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
            connection.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: tracks.contains(.audio) ? .sendonly : nil,
                codec: codec)
            onEvent(.offered(sdp: try connection.createOffer()))
        }
    }

    func restartICE(_ tracks: Set<MediaKind>) {
        life.work("ICE could not be restarted") { [self] in
            guard let connection else { return }
            // There is nothing to restart before the first answer: the viewer gets the offer again.
            guard isAnswered else { return firstOffer.map { onEvent(.offered(sdp: $0)) } ?? () }
            connection.rollbackOffer()
            connection.setMedia(
                video: tracks.contains(.video) ? .sendonly : nil, audio: nil,
                codec: codec)
            onEvent(.offered(sdp: try connection.createOffer(restartsICE: true, reason: "the viewer resumes")))
        }
    }

    func moveVideo() {
        life.work("the video could not move") { [self] in connection?.moveVideo() }
    }

    /// Nothing to do: the session's painted frames resume by themselves.
    func restart(_ output: Fault.Output) {}

    func receive(answer: String) {
        life.work("the answer could not be taken") { [self] in
            guard let connection else { return }
            try connection.setAnswer(answer)
            isAnswered = true
            if connection.sendParameters != nil, encoder == nil, encodedScreen == nil { try sendFrames() }
            try sendAudio()
        }
    }

    /// Viewers send no media.
    func receive(offer: String) {}

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        life.work("a candidate could not be taken") { [self] in
            connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide) {
        if side == .subscriber { addRemoteCandidate(candidate) }
    }

    /// Media faults act on the session, not on its viewers.
    func add(_ faults: [Fault]) {}

    func stop(completion: @escaping @Sendable () -> Void) {
        life.stop(
            cleanUp: { [self] in
                if let screen {
                    viewers.remove(screen)
                    screen.close()
                }
                if let speaker {
                    viewers.remove(speaker)
                    speaker.close()
                }
                if let encodedScreen {
                    viewers.remove(encodedScreen)
                    encodedScreen.close()
                }
                (screen, encodedScreen, speaker, encoder, connection) = (nil, nil, nil, nil, nil)
            }, completion: completion)
    }

    // MARK: Pipeline

    private var codec: VideoCodec { viewers.encoded?.codec ?? (VideoCodec.h264.isAvailable ? .h264 : .vp8) }

    private func makeConnection() throws -> PeerConnection {
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        configuration.acceptsDataChannels = msid != nil
        // In a room the first offer has data channels only.
        configuration.direction = msid == nil ? .sendonly : nil
        configuration.msid = msid
        configuration.audioMSID = audioMSID
        configuration.audio = msid == nil ? .sendonly : nil
        if let encoded = viewers.encoded {
            EncodedEcho.prepare(&configuration)
            configuration.usableCodecs = [encoded.codec]
        }
        let connection = try life.connect(configuration) { [weak self] in self?.handle($0) }
        self.connection = connection
        try life.play()
        return connection
    }

    private func sendFrames() throws {
        guard let connection, let parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        if let encoded = viewers.encoded { return try sendEncoded(encoded, parameters, connection) }
        let encoder = try VideoEncoderBin(
            parameters: parameters, bitrate: bitrate, carriesTrailers: takesTrailers)
        let screen = try ViewerScreen(takesTrailers: takesTrailers)
        (self.encoder, self.screen) = (encoder, screen)
        life.pipeline.add([screen.queue, encoder.bin])
        try screen.queue.link(encoder.bin)
        try encoder.bin.link("src", to: connection.bin, "rtp_sink")
        encoder.bin.syncStateWithParent()
        screen.queue.syncStateWithParent()
        try screen.open()
        viewers.add(screen)
    }

    private func sendEncoded(
        _ source: Viewers.EncodedSource, _ parameters: RTPSendParameters, _ connection: PeerConnection
    ) throws {
        let screen = try EncodedScreen(source, parameters)
        encodedScreen = screen
        life.pipeline.add(screen.sender)
        try screen.sender.link("src", to: connection.bin, "rtp_sink")
        screen.sender.syncStateWithParent()
        try screen.open()
        viewers.add(screen)
    }

    /// Sends the session's audio once it is negotiated; packets come while the session has any.
    private func sendAudio() throws {
        guard speaker == nil, let connection, connection.audioDirection?.sends ?? false,
            let parameters = connection.audioSendParameters
        else { return }
        let speaker = try ViewerSpeaker(parameters)
        self.speaker = speaker
        life.pipeline.add(speaker.payloader)
        try speaker.payloader.link("src", to: connection.bin, "audio_rtp_sink")
        speaker.payloader.syncStateWithParent()
        try speaker.open()
        viewers.add(speaker)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate): onEvent(.localCandidate(CandidateMessage(candidate)))
        case .gatheringComplete: onEvent(.localCandidate(nil))
        case .stateChanged(.connected): onEvent(.connected)
        case .stateChanged(.failed(let error)): life.fail(error.message)
        case .bitrateTarget(let target): encoder?.setBitrate(min(target.target, bitrate))
        case .stateChanged, .iceConnected, .disconnected, .reconnected, .iceRestarted, .remoteBitrateEstimate,
            .codecArrived, .streamArrived, .relaysMissing:
            break
        }
    }
}

/// Passes frames from the session's pipeline into the viewer's and restamps them with the viewer's running time.
// @unchecked: the pad has its own lock; nothing else changes.
final class ViewerScreen: Viewers.Screen, @unchecked Sendable {
    let queue: Element
    private let pad = Pad(name: "painted", direction: .source)

    private let takesTrailers: Bool

    init(takesTrailers: Bool) throws {
        self.takesTrailers = takesTrailers
        queue = try Element(factory: "queue")
        queue.set("leaky", "downstream")
        queue.set("max-size-buffers", 3)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", 0)
    }

    /// Call after `queue` is in the pipeline: adding an element to a bin unlinks it.
    func open() throws {
        guard let sink = queue.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the queue has no sink pad")
        }
        pad.setActive(true)
        try pad.link(sink)
    }

    func show(_ frame: Buffer, _ caps: Caps) {
        guard let now = queue.currentRunningTime else { return }
        pad.begin("standin/viewer", caps)
        if !takesTrailers { frame.attachment = nil }
        frame.pts = now
        frame.dts = nil
        _ = pad.push(frame)
    }

    func close() { pad.setActive(false) }
}

/// Passes encoded frames from the session's pipeline into the viewer's, from a keyframe on.
// @unchecked: the pad has its own lock; the rest belongs to the thread of the session's frames.
final class EncodedScreen: Viewers.Screen, @unchecked Sendable {
    let sender: Bin
    private let source: Viewers.EncodedSource
    private let pad = Pad(name: "viewer_video", direction: .source)
    private var needsKeyframe = true

    init(_ source: Viewers.EncodedSource, _ parameters: RTPSendParameters) throws {
        self.source = source
        sender = try EncodedVideoBin.makeSender(parameters)
    }

    /// Call after `sender` is in the pipeline.
    func open() throws {
        guard let sink = sender.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the sender has no sink pad")
        }
        pad.setEventFunction { [source] event in
            if event.isForceKeyUnit { source.requestKeyframe() }
            return .handled(true)
        }
        pad.setActive(true)
        try pad.link(sink)
        source.requestKeyframe()
    }

    func show(_ frame: Buffer, _ caps: Caps) {
        guard let now = sender.currentRunningTime, !(needsKeyframe && frame.isDeltaUnit) else { return }
        needsKeyframe = false
        pad.begin("standin/viewer", caps)
        frame.pts = now
        frame.dts = nil
        _ = pad.push(frame)
    }

    func close() { pad.setActive(false) }
}

/// Passes Opus packets from the session's pipeline into the viewer's. The first one gets the viewer's running time, and the
/// others keep their distance to it, because a viewer's jitter buffer would hear the difference.
// @unchecked: the pad has its own lock; the rest belongs to the thread of the session's audio.
final class ViewerSpeaker: Viewers.Speaker, @unchecked Sendable {
    let payloader: Element
    private let pad = Pad(name: "viewer_audio", direction: .source)
    private var shift: UInt64?
    /// ns; a larger distance is a gap in the session's audio.
    private static let tolerance: UInt64 = 200_000_000

    init(_ parameters: AudioSendParameters) throws {
        payloader = try Element(factory: "rtpopuspay")
        payloader.set("pt", parameters.payloadType)
        payloader.set("ssrc", Int(parameters.ssrc))
        payloader.set("seqnum-offset", Int.random(in: 0..<32768))
    }

    /// Call after `payloader` is in the pipeline.
    func open() throws {
        guard let sink = payloader.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the payloader has no sink pad")
        }
        pad.setActive(true)
        try pad.link(sink)
    }

    func play(_ packet: Buffer, _ caps: Caps) {
        guard let now = payloader.currentRunningTime, let time = packet.pts else { return }
        pad.begin("standin/viewer-audio", caps)
        let shift = self.shift.flatMap { Self.isNear(time &+ $0, now) ? $0 : nil } ?? now &- time
        self.shift = shift
        packet.pts = time &+ shift
        packet.dts = nil
        _ = pad.push(packet)
    }

    private static func isNear(_ one: UInt64, _ other: UInt64) -> Bool {
        one > other ? one - other < tolerance : other - one < tolerance
    }

    func close() { pad.setActive(false) }
}

extension Pad {
    /// Pushes the sticky events that a buffer of these caps needs.
    fileprivate func begin(_ stream: String, _ caps: Caps) {
        let before = currentCaps
        if before == nil { push(GStreamerKit.Event.streamStart(id: stream, groupID: Event.nextGroupID())) }
        if before != caps { push(Event.caps(caps)) }
        if before == nil { push(Event.timeSegment()) }
    }
}
