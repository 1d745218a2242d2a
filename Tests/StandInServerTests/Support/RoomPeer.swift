import DecartProtocol
import Dispatch
import GStreamerKit
import LiveKitProtocol
import RTP
import StandInServer
import Synchronization
import WebRTCTransport

/// A room participant with media and scripted signalling: sends a tone and a test pattern, and counts what returns.
// @unchecked: used by one thread; GStreamer objects have their own locks.
final class RoomPeer: @unchecked Sendable {
    let room: RoomClient
    let publisher: PeerConnection
    let subscriber: PeerConnection
    let tone = Tone()
    /// Frames received.
    let frames = Atomic<Int>(0)
    private let pipeline: Pipeline
    private var sendsVideo = false
    private var sendsTone = false
    private var receivesVideo = false
    private var listens = false
    private var offerID: UInt32 = 0

    /// - Parameter codec: what the subscriber receives; nil: the first codec of each offer.
    init(_ room: RoomClient, receives codec: VideoCodec? = nil) throws {
        GStreamerRuntime.initialise()
        pipeline = Pipeline()
        self.room = room
        func make(_ target: LiveKitSignalTarget, _ change: (inout PeerConnectionConfiguration) -> Void) throws
            -> PeerConnection
        {
            var configuration = PeerConnectionConfiguration()
            change(&configuration)
            return try PeerConnection(configuration: configuration) { event in
                guard case .localCandidate(let candidate) = event,
                    let text = try? CandidateMessage(candidate).encodedInit()
                else { return }
                try? room.send {
                    $0.trickle = .with {
                        ($0.candidateInit, $0.target) = (String(decoding: text, as: UTF8.self), target)
                    }
                }
            }
        }
        publisher = try make(.publisher) {
            ($0.direction, $0.msid, $0.audioMSID) = (.sendonly, "s camera", "s microphone")
        }
        subscriber = try make(.subscriber) {
            ($0.direction, $0.audio, $0.acceptsDataChannels) = (.recvonly, .recvonly, true)
            $0.usableCodecs = codec.map { [$0] }
        }
        pipeline.add([publisher.bin, subscriber.bin])
        pipeline.setState(.playing)
    }

    /// Opens a session with a prompt, joins its room and publishes video. The body runs once the room has offered the output
    /// track.
    static func withVideo(
        port: Int, query: String = "", receives codec: VideoCodec? = nil, _ body: (RoomPeer) throws -> Void
    ) throws {
        let control = try TestClient(port: port, target: TestServer.roomTarget + query)
        defer { control.close() }
        try control.send(.livekitJoin(LiveKitJoin()))
        guard case .message(.livekitRoomInfo(let info)) = try control.next() else { throw TestClient.TimedOut() }
        try control.send(.prompt(PromptMessage(text: "lego", enhance: false)))
        let peer = try RoomPeer(RoomClient(port: port, token: info.token.reveal()), receives: codec)
        defer { peer.stop() }
        try peer.waitForOffer()
        try peer.publish(audio: false)
        try peer.waitForOffer()
        try body(peer)
    }

    func waitForOffer() throws { try pump { if case .offer = $0 { true } else { false } } }

    /// Announces video, optionally audio too, and offers.
    func publish(audio: Bool) throws {
        let tracks: [(String, LiveKitTrackType, LiveKitTrackSource)] =
            [("camera", .video, .camera)] + (audio ? [("microphone", .audio, .microphone)] : [])
        for (cid, type, source) in tracks {
            try room.send { $0.addTrack = .with { ($0.cid, $0.type, $0.source) = (cid, type, source) } }
        }
        publisher.setMedia(video: .sendonly, audio: audio ? .sendonly : nil)
        offerID += 1
        let sdp = try publisher.createOffer()
        try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", sdp, offerID) } }
    }

    /// Handles messages until one matches.
    func pump(until fits: (LiveKitSignalResponse.Message) -> Bool) throws {
        while true {
            let message = try room.next()
            try handle(message)
            if fits(message) { return }
        }
    }

    /// Handles messages until the condition holds: candidates may come after the descriptions.
    /// - Returns: false after 20 s.
    func waits(for condition: () -> Bool) throws -> Bool {
        let deadline = DispatchTime.now() + .seconds(20)
        while !condition() {
            guard DispatchTime.now() < deadline else { return false }
            if let message = try? room.next(milliseconds: 20) { try handle(message) }
        }
        return true
    }

    private func handle(_ message: LiveKitSignalResponse.Message) throws {
        switch message {
        case .answer(let answer): try apply(answer: answer.sdp)
        case .offer(let offer): try apply(offer: offer)
        case .trickle(let trickle):
            if let candidate = try? CandidateMessage(decodingInit: Array(trickle.candidateInit.utf8)) {
                (trickle.target == .subscriber ? subscriber : publisher).addRemoteCandidate(ICECandidate(candidate))
            }
        default: break
        }
    }

    private func apply(answer sdp: String) throws {
        try publisher.setAnswer(sdp)
        if !sendsVideo, let parameters = publisher.sendParameters {
            sendsVideo = true
            let source = try Bin(
                description:
                    "videotestsrc is-live=true ! video/x-raw,format=I420,width=160,height=96,framerate=30/1 ! identity",
                ghostUnlinkedPads: true)
            let encoder = try VideoEncoderBin(parameters: parameters, bitrate: 500_000)
            pipeline.add([source, encoder.bin])
            try source.link(encoder.bin)
            try encoder.bin.staticPad("src")?.link(publisher.bin.staticPad("rtp_sink")!)
            encoder.bin.syncStateWithParent()
            source.syncStateWithParent()
        }
        if !sendsTone, publisher.audioSendParameters != nil {
            sendsTone = true
            try tone.send(440, through: publisher, in: pipeline)
        }
    }

    private func apply(offer: LiveKitSessionDescription) throws {
        let sdp = try subscriber.createAnswer(to: offer.sdp)
        if !receivesVideo, let codec = subscriber.negotiatedCodec {
            receivesVideo = true
            let decoder = try VideoDecoderBin.make(codec: codec)
            let sink = try Element(factory: "fakesink")
            sink.set("sync", false)
            sink.set("async", false)
            pipeline.add([decoder, sink])
            try decoder.link(sink)
            sink.staticPad("sink")?.addProbe(.buffer) { [weak self] _ in
                self?.frames.wrappingAdd(1, ordering: .relaxed)
                return .pass
            }
            sink.syncStateWithParent()
            decoder.syncStateWithParent()
            try subscriber.bin.staticPad("rtp_src")?.link(decoder.staticPad("sink")!)
        }
        if !listens, subscriber.audioDirection != nil {
            listens = true
            try tone.listen(to: subscriber, in: pipeline)
        }
        try room.send { $0.answer = .with { ($0.type, $0.sdp, $0.id) = ("answer", sdp, offer.id) } }
    }

    /// How far both connections have got, for the message of a failed test.
    var progress: String { "publisher: \(publisher.statistics()), subscriber: \(subscriber.statistics())" }

    func stop() {
        publisher.close()
        subscriber.close()
        pipeline.setState(.null)
        for connection in [publisher, subscriber] {
            pipeline.remove(connection.bin)
            connection.dismantle()
        }
    }
}
