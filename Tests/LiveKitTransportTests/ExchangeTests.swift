// What a room machine does with the messages that a LiveKit server (1.13.5) sent to a client.
//
// `Exchanges/NAME.txt` has the server's messages: seconds, connection, bytes in base64. The other lines say what happened
// beside them: `join`, `reopen` (the connection of a resume is open), `close CODE`, `cut`, `stall` (the session missed
// media), `audio on`, `audio off`. A replay ends where another answer of ours would have changed what the server says.
// `Exchanges/NAME.expected` has one line for each of these lines: what the machine does.
import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import Testing
import TestSupport
import WebRTCTransport

@Suite("Recorded exchanges with a LiveKit server", .timeLimit(.minutes(1)))
struct ExchangeTests {
    private static let folder = "\(#filePath.dropLast("ExchangeTests.swift".count))Exchanges/"

    /// Settings of the recorded client.
    private static let settings: [(name: String, codec: VideoCodec, audio: Bool, layers: Int)] = [
        ("bot_leaves", .vp8, false, 0), ("bot_mutes", .vp8, false, 0), ("deleted", .vp8, false, 0),
        ("good_av", .vp8, true, 0), ("muted_by_room", .vp8, false, 0), ("no_permission", .vp8, false, 0),
        ("paused", .vp8, false, 0), ("removed", .vp8, false, 0), ("republish", .vp8, false, 0),
        ("republish_h264", .vp8, false, 0), ("republish_overlap", .vp8, false, 0), ("resume", .vp8, false, 0),
        ("room_h264_only", .h264, true, 0), ("room_vp8_only", .h264, false, 0), ("second_server", .vp8, false, 0),
        ("second_track", .vp8, false, 0), ("service_h264", .h264, false, 0), ("simulcast_low", .vp8, false, 3),
        ("unsubscribe_permission", .vp8, false, 0),
        ("v1_sdk_h264_simulcast", .h264, false, 3), ("v1_sdk_republish", .vp8, false, 0),
        ("v1_sdk_resume", .vp8, false, 0), ("v1_sdk_vp8", .vp8, false, 0),
    ]
    /// The recorded client's IDs of its video track, if it joined with one connection.
    private static let tracks = [
        "v1_sdk_h264_simulcast": "b05f90a6-bde8-4cba-8212-af59c79a0048",
        "v1_sdk_republish": "8737847f-a477-49af-9015-6bbde56cdd2b",
        "v1_sdk_resume": "7c70d7d3-9109-4106-add0-0d3026cfcfa0",
        "v1_sdk_vp8": "453beace-3d83-433c-a082-b71c21951793",
    ]

    @Test(arguments: settings.map(\.name))
    func replay(name: String) throws {
        let settings = try #require(Self.settings.first { $0.name == name })
        var configuration = RoomConfiguration(width: 640, height: 352, bitrate: 3_500_000, codec: settings.codec)
        configuration.encodable = [.h264, .vp8]
        configuration.receivable = [.h264, .vp8, .vp9]
        configuration.layers = (0..<settings.layers).map { index in
            .init(rid: ["f", "h", "q"][index], width: 640 >> index, height: 352 >> index, bitrate: 3_000_000 >> index)
        }
        configuration.prefersOneConnection = Self.tracks[name] != nil
        configuration.trackID = Self.tracks[name] ?? configuration.trackID
        var replay = Replay(configuration, audio: settings.audio)
        var seen: [String] = []
        for line in try lines("\(name).txt") where !line.hasPrefix("#") {
            let parts = line.split(separator: " ", maxSplits: 2).map(String.init)
            guard parts.count == 3, let seconds = Double(parts[0]) else {
                Issue.record("unreadable: \(line.prefix(80))")
                return
            }
            let (what, actions) = try replay.take(parts[2], at: .milliseconds(Int(seconds * 1000)))
            seen.append("\(what): \(actions.isEmpty ? "–" : actions.joined(separator: "; "))")
        }
        let expected = try lines("\(name).expected")
        #expect(seen == expected, "\(name):\n\(seen.joined(separator: "\n"))")
    }

    private func lines(_ file: String) throws -> [String] {
        let text = String(decoding: try readFile(Self.folder + file), as: UTF8.self)
        return text.split(separator: "\n").map(String.init)
    }
}

/// One client on virtual time. What a connection would do follows each action at once.
private struct Replay {
    private let configuration: RoomConfiguration
    private var machine: RoomMachine
    private var desired: DesiredMedia
    private var timers = VirtualTimers<RoomTimer>()
    private var connected: Set<LiveKitSignalTarget> = []
    private var seen: [String] = []
    private var isRecovering = false

    init(_ configuration: RoomConfiguration, audio: Bool) {
        self.configuration = configuration
        desired = DesiredMedia(video: true, audio: audio)
        machine = RoomMachine(configuration: configuration, token: Secret("first"))
    }

    /// - Returns: the kind of the line, and what the machine did since the previous one.
    mutating func take(_ text: String, at time: Duration) throws -> (String, [String]) {
        while let timer = timers.next(until: time) { handle(.timerFired(timer)) }
        defer { seen = [] }
        switch text {
        case "join":
            machine = RoomMachine(configuration: configuration, token: Secret("first"))
            for timer in timers.running { timers.cancel(timer) }
            (connected, isRecovering) = ([], false)
            handle(.request(.desired(desired)))
            handle(.request(.open))
            handle(.signalling(.opened))
        case "reopen": handle(.signalling(.opened))
        case "cut":
            let error = SessionError(.network, "The connection was reset.", stage: .media)
            handle(.signalling(.failed(error)))
        case "stall": handle(.request(.recover))
        case "audio on", "audio off":
            desired.audio = text == "audio on"
            handle(.request(.desired(desired)))
        case "close 1000": handle(.signalling(.closed(code: 1000, reason: "")))
        default:
            let bytes = try #require(Base64.decode(text))
            let response = try LiveKitSignalResponse(serializedBytes: bytes)
            handle(.signalling(.message(response)))
            return (response.message.flatMap { Mirror(reflecting: $0).children.first?.label } ?? "unknown", seen)
        }
        return (text, seen)
    }

    private mutating func handle(_ event: RoomEvent) {
        let actions = machine.handle(event, now: timers.now)
        for action in actions {
            if let text = Self.describe(action) { seen.append(text) }
            follow(action)
        }
        // The session requests it once for each resume.
        if actions.contains(where: { if case .report(.recovering) = $0 { true } else { false } }), !isRecovering {
            isRecovering = true
            handle(.request(.recover))
        }
    }

    private mutating func follow(_ action: RoomAction) {
        switch action {
        case .schedule(let timer, let delay): timers.schedule(timer, after: delay)
        case .cancel(let timer): timers.cancel(timer)
        case .makeOffer, .restartICE: handle(.peer(.offerMade(sdp: "our offer")))
        case .makeAnswer(_, let id):
            handle(.peer(.answerMade(sdp: "our answer", offer: id)))
            connect(.subscriber)
        case .applyAnswer: connect(.publisher)
        case .reportResumed: isRecovering = false
        default: break
        }
    }

    private mutating func connect(_ target: LiveKitSignalTarget) {
        if connected.insert(target).inserted { handle(.peer(.peerConnected(target))) }
    }

    // MARK: The words of the table

    private static func describe(_ action: RoomAction) -> String? {
        switch action {
        case .schedule, .cancel: nil
        case .send(let message): describe(message)
        case .close: "close"
        case .resume(let request, _): "resume \(request.participantSid)"
        case .join(let request) where request == .init(): "connect"
        case .join(let request):
            "join with \(request.addTrackRequests.map(\.cid).joined(separator: ", ")), offer \(request.publisherOffer.id)"
        case .makePeer: "make one peer"
        case .useServers(let servers, _): "use \(servers.flatMap(\.urls).count) ICE servers"
        case .dropPeer: "drop the peer"
        case .addReceivers(let counts):
            "receive " + MediaKind.allCases.map { "\(counts[$0] ?? 0) \($0)" }.joined(separator: ", ")
        case .setFillerTrailer(let bytes): "mark fillers of \(bytes.count) bytes"
        case .useCodec(let codec): "use \(codec)"
        case .want(let rids): "encode \(rids.isEmpty ? "nothing" : rids.sorted().joined(separator: ", "))"
        case .makeOffer(let kinds): "offer \(kinds.listed)"
        case .restartICE(let kinds): "restart ICE with \(kinds.listed)"
        case .rollbackOffer: "roll back"
        case .applyAnswer: "apply answer"
        case .makeAnswer(_, let id): "answer \(id)"
        case .applyCandidate(let candidate, let target): "\(candidate == nil ? "end" : "candidate") of \(target)"
        case .reportConnected: "connected"
        case .reportMuted(let kinds): "muted by the room: \(kinds.isEmpty ? "nothing" : kinds.listed)"
        case .report(.hold(let hold)): "hold: \(hold.map { "\($0)" } ?? "none")"
        case .report(.pathLost): "paths lost"
        case .report(.pathRecovered): "paths restored"
        case .report(.recovering(let error)): "resuming: \(error.message)"
        case .reportResumed(_, let attempts): "resumed by attempt \(attempts)"
        case .report(.closedByPeer(let error)): "failed: \(error.message)"
        case .report(let event): "\(event)"
        case .reportLost(let error): "lost: \(error.message)"
        case .note(let text): "note: \(text)"
        }
    }

    private static func describe(_ message: LiveKitSignalRequest.Message) -> String? {
        switch message {
        // The answer to `makeOffer` and `makeAnswer`.
        case .offer, .answer: nil
        case .trickle(let trickle): "send candidate of \(trickle.target)"
        case .addTrack(let track):
            "announce \(track.cid)" + track.simulcastCodecs.map { " \($0.codec), \($0.layers.count) layers" }.joined()
        case .mute(let mute): "\(mute.muted ? "mute" : "unmute") \(mute.sid)"
        case .subscription(let update):
            "\(update.subscribe ? "subscribe to" : "unsubscribe from") \(update.trackSids.joined(separator: ", "))"
        case .leave: "leave"
        case .syncState(let state):
            "sync \(state.subscription.trackSids.count) subscribed, \(state.publishTracks.count) published, offer "
                + "\(state.offer.id)"
        case .ping, .pingReq: "ping"
        }
    }
}
