import DecartProtocol
import GStreamerKit
import RTP
import StandInServer
import TestSupport
import WebRTCTransport

/// A client with media: control channel and peer connection of a real session; sends a test pattern, keeps the planes.
// @unchecked: the mutex guards the mutable state; GStreamer objects have their own locks.
final class MediaPeer: @unchecked Sendable {
    let client: TestClient
    let connection: PeerConnection
    let pipeline: Pipeline
    private let pattern: String

    private struct Seen {
        var frames = 0
        var planes: [[UInt8]] = []
    }
    private let seen = Watched(Seen())
    let states = PeerStates()

    init(
        server: StandInServer, port: Int, codec: VideoCodec = .vp8, pattern: String = "smpte"
    ) throws {
        GStreamerRuntime.initialise()
        pipeline = Pipeline()
        self.pattern = pattern
        let client = try TestClient(port: port, target: TestServer.target)
        self.client = client
        var configuration = PeerConnectionConfiguration()
        configuration.codec = codec
        let states = states
        connection = try PeerConnection(configuration: configuration) { event in
            states.add(event)
            switch event {
            case .localCandidate(let candidate):
                try? client.send(.iceCandidate(CandidateMessage(candidate)))
            case .gatheringComplete:
                try? client.send(.iceCandidate(nil))
            default:
                break
            }
        }
        pipeline.add(connection.bin)
        _ = try client.expectGreeting()
    }

    /// Sends a state and waits for its ack.
    func setState(_ message: ClientMessage) throws {
        try client.send(message)
        try pump { $0.isAck }
    }

    /// Negotiates and starts media; returns when the stand-in reports the generation.
    func negotiate() throws {
        try client.send(.offer(sdp: try connection.createOffer()))
        try pump { $0 == .generationStarted }
    }

    /// Sends a later offer and applies its answer.
    func renegotiate(audio: MediaDirection?) throws {
        connection.setMedia(video: .sendrecv, audio: audio)
        try client.send(.offer(sdp: try connection.createOffer()))
        try pump { if case .answer = $0 { true } else { false } }
    }

    /// Handles messages until one matches.
    func pump(until fits: (ServerMessage) -> Bool) throws {
        while true {
            guard case .message(let message) = try client.next() else {
                throw TestClient.TimedOut()
            }
            switch message {
            case .answer(let sdp):
                let isFirst = connection.negotiatedCodec == nil
                try connection.setAnswer(sdp)
                if isFirst { try startMedia() }
            case .iceCandidate(let candidate):
                connection.addRemoteCandidate(candidate.map(ICECandidate.init))
            default:
                break
            }
            if fits(message) { return }
        }
    }

    private func startMedia() throws {
        guard let parameters = connection.sendParameters else { throw TestClient.TimedOut() }
        let source = try Bin(
            description: """
                videotestsrc is-live=true pattern=\(pattern) \
                ! video/x-raw,format=I420,width=320,height=176,framerate=30/1 \
                ! queue leaky=downstream max-size-buffers=2
                """,
            ghostUnlinkedPads: true)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: 1_500_000)
        let decoder = try VideoDecoderBin.make(codec: parameters.codec)
        let sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        sink.set("async", false)
        pipeline.add([source, encoder.bin, decoder, sink])
        try pipeline.linkChain([source, encoder.bin])
        try decoder.link(sink)
        guard let sendPad = connection.bin.staticPad("rtp_sink"), let receivePad = connection.bin.staticPad("rtp_src"),
            let encoded = encoder.bin.staticPad("src"), let encodedIn = decoder.staticPad("sink"),
            let decoded = sink.staticPad("sink")
        else { throw TestClient.TimedOut() }
        try encoded.link(sendPad)
        try receivePad.link(encodedIn)
        // Only for the thread that pushes.
        nonisolated(unsafe) var video: VideoInfo?
        decoded.addProbe([.buffer, .downstreamEvent]) { [weak self] item in
            if case .event(let event) = item, let caps = event.caps { video = VideoInfo(caps: caps) }
            if case .buffer(let buffer) = item, let video { self?.receive(buffer, video) }
            return .pass
        }
        pipeline.setState(.playing)
    }

    private func receive(_ buffer: Buffer, _ video: VideoInfo) {
        guard let copied = buffer.withVideoPlanes(video, writable: false, { $0.map(\.samples) }) else { return }
        seen.change { ($0.frames, $0.planes) = ($0.frames + 1, copied) }
    }

    var frameCount: Int { seen.read(\.frames) }

    /// Waits for a returned frame that matches.
    func waitForFrame(seconds: Double = 40, where fits: ([[UInt8]]) -> Bool) -> Bool {
        let end = ContinuousClock.now + .seconds(seconds)
        while true {
            // Outside of the lock: `fits` may read `frameCount`.
            let (planes, count) = seen.read { ($0.planes, $0.frames) }
            if !planes.isEmpty, fits(planes) { return true }
            let left = end - .now
            guard left > .zero, seen.wait(left, until: { $0.frames > count }) else { return false }
        }
    }

    func waitForFrames(_ count: Int) -> Bool { seen.wait(seconds: 40) { $0.frames >= max(count, 1) } }

    func stop() {
        connection.close()
        pipeline.setState(.null)
        pipeline.remove(connection.bin)
        connection.dismantle()
        client.close()
    }
}

extension ServerMessage {
    fileprivate var isAck: Bool {
        switch self {
        case .promptAck, .setImageAck: true
        default: false
        }
    }
}

/// Progress of the client's peer connection.
final class PeerStates: Sendable {
    private let events = Watched<(iceIsUp: Bool, failure: PeerConnectionError?)>((false, nil))

    func add(_ event: PeerConnectionEvent) {
        events.change { events in
            switch event {
            case .iceConnected: events.iceIsUp = true
            case .stateChanged(.failed(let error)): events.failure = error
            default: break
            }
        }
    }

    var failure: PeerConnectionError? { events.read(\.failure) }

    func waitForICE(seconds: Double = 20) -> Bool { events.wait(seconds: seconds, until: \.iceIsUp) }
    func waitForFailure(seconds: Double = 20) -> Bool { events.wait(seconds: seconds) { $0.failure != nil } }
}
