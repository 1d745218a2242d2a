// The exchanges of a LiveKit server (1.13.5) with clients, beside our room in the same situations.
//
// `Exchanges/NAME.txt` has a line for each message, in order: who sent it, and its bytes in base64; `join` and `reconnect`
// begin a connection, with the request in the URL of a single one; `event` says what happened beside the messages. The
// client's messages and the events are given to our room, and what it sends must agree with the server's messages.
import DecartProtocol
import GStreamerKit
import LiveKitProtocol
import RTP
import StandInServer
import TestSupport
import Testing
import WebRTCTransport

@Suite("Recorded exchanges of a LiveKit server", .timeLimit(.minutes(1)))
struct RecordedExchangeTests {
    private static let folder =
        "\(#filePath.dropLast("Descriptions/RecordedExchangeTests.swift".count))Exchanges/"

    /// The recorded exchanges, the video codec that their rooms allow (nil: all), and all that our room does otherwise: "-"
    /// for a message of the server that it does not send, "+" for one that only it sends.
    private static let exchanges: [(name: String, allowed: RoomCodec?, differences: [String])] = [
        // Our service stays in the room while its track is away.
        ("bot_leaves", nil, ["- offer {}", "- service: gone", "+ offer {}"]),
        ("bot_mutes", nil, []),
        // Here the service was removed before the client, in the other recordings after it.
        ("deleted", nil, ["- service: gone"]),
        ("good_av", nil, bothAtOnce),
        ("muted_by_room", nil, []),
        ("no_permission", nil, []),
        ("paused", nil, []),
        ("removed", nil, []),
        ("republish", nil, []),
        ("republish_h264", nil, offersAtOnce("{1: service's video 1}") + publishesAtOnce),
        ("republish_overlap", nil, []),
        ("resume", nil, []),
        ("room_h264_only", .h264, bothAtOnce),
        ("room_vp8_only", .vp8, []),
        ("second_server", nil, []),
        ("second_track", nil, []),
        ("service_h264", nil, offersAtOnce("{}") + publishesAtOnce),
        // The recorded service subscribes again when it publishes again.
        (
            "simulcast_low", nil,
            [
                "- subscribed layers of client's video 1: low true medium true high false, "
                    + "vp8: low true medium true high false"
            ]
        ),
        ("unsubscribe_permission", nil, []),
        ("v1_sdk_h264_simulcast", nil, []),
        ("v1_sdk_republish", nil, []),
        ("v1_sdk_resume", nil, []),
        ("v1_sdk_vp8", nil, []),
    ]

    /// Our service publishes its tracks together, the recorded one each as soon as it receives the client's.
    private static let bothAtOnce = [
        "- service: [service's audio 1; service's video 1]", "- service: [service's audio 1]",
        "+ service: [service's audio 1; service's video 1]",
    ]
    /// The recorded client left before its next connection reached this.
    private static let publishesAtOnce = ["+ service: [service's video 1]"]

    /// Our room offers without the track that the client cannot receive; a server may do so later, the client left at once.
    private static func offersAtOnce(_ tracks: String) -> [String] { ["+ offer \(tracks)"] }

    @Test(arguments: exchanges.map(\.name)) func exchange(name: String) throws {
        GStreamerRuntime.initialise()
        let (_, allowed, differences) = try #require(Self.exchanges.first { $0.name == name })
        let text = String(decoding: try readFile(Self.folder + "\(name).txt"), as: UTF8.self)
        var replay = Replay(allowed: allowed)
        for line in text.split(separator: "\n") { try replay.take(line) }
        #expect(RoomAccount.Strand.allCases.flatMap(replay.differences) == differences)
        #expect(replay.theirs.descriptions.count > 1)
        for (number, description) in replay.theirs.descriptions {
            #expect(replay.ours.descriptions[number] == description, "\(number)")
        }
    }
}

/// Our room, its media without packets, and what the server and the room have sent.
private struct Replay {
    private let allowed: RoomCodec?
    private var machine: RoomStateMachine
    private(set) var theirs = RoomAccount()
    private(set) var ours = RoomAccount()
    /// The rest of the connection shows what our room cannot do.
    private var isOver = false

    // MARK: Media
    private var isSingle = false
    private var lines = SubscriberLines()
    private var singleLines = SingleLines()
    /// Single connection: the tracks of the next answer.
    private var wanted: [OutputTrack] = []
    private var codec = OutputCodec("vp8")
    private var extraCodec = OutputCodec("vp8")

    init(allowed: RoomCodec?) {
        self.allowed = allowed
        machine = RoomStateMachine(autoSubscribes: false, isSingle: false, options: RoomOptions())
    }

    func differences(in strand: RoomAccount.Strand) -> [String] {
        let ours = ours.words[strand] ?? []
        return ours.difference(from: theirs.words[strand] ?? []).map { change in
            switch change {
            case .remove(_, let word, _): "- \(word)"
            case .insert(_, let word, _): "+ \(word)"
            }
        }
    }

    mutating func take(_ line: Substring) throws {
        let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = parts.count > 1 ? parts[1] : ""
        let bytes = Base64.decode(rest) ?? []
        switch parts[0] {
        case "join":
            try join(parts.count > 1 ? LiveKitJoinRequest(serializedBytes: bytes) : nil)
        case _ where isOver: break
        case "reconnect":
            machine.signallingLost()
            try perform(machine.resumed(token: "token"))
        case "server": theirs.add(try #require(LiveKitSignalResponse(serializedBytes: bytes).message))
        case "client":
            let request = try translated(LiveKitSignalRequest(serializedBytes: bytes))
            try perform(machine.received(request, now: 0))
        default: try happen(rest)
        }
    }

    private mutating func join(_ single: LiveKitJoinRequest?) throws {
        let accounts = (theirs, ours)
        var options = RoomOptions()
        options.allowedCodecs = allowed.map { [$0] }
        self = Replay(allowed: allowed)
        ((theirs, ours), isSingle) = (accounts, single != nil)
        lines = SubscriberLines(allowed: allowed.map { [$0.rawValue, "opus"] })
        machine = RoomStateMachine(
            autoSubscribes: single?.connectionSettings.autoSubscribe ?? false, isSingle: isSingle, options: options)
        try perform(machine.opened(token: "token"))
        if let single { try perform(machine.joined(single)) }
    }

    private mutating func happen(_ event: String) throws {
        let words = event.split(separator: " ").map(String.init)
        switch event {
        case "connected":
            if !isSingle { try perform(machine.mediaConnected(.subscriber)) }
            try perform(machine.mediaConnected(.publisher))
        case "report": try perform(machine.report())
        case "service leaves", "service unpublishes": try perform(machine.withdrawOutput())
        case "service joins": break
        case "service publishes": try perform(machine.restartOutput(.newSID))
        case "service mutes", "service unmutes": try perform(machine.muteOutput(event == "service mutes"))
        case "service pauses": try perform(machine.pauseOutput(true))
        case "second joins": try perform(machine.addExtra(bySecondServer: true))
        case "second leaves": try perform(machine.removeExtra())
        case "client is muted": try perform(machine.muteVideo(true))
        case "removed": try perform(machine.leave(.disconnect, reason: .participantRemoved))
        case "deleted": try perform(machine.leave(.disconnect, reason: .roomDeleted))
        // The permissions of our room's participants never change.
        case "publishing is forbidden", "subscribing is forbidden": isOver = true
        default:
            if words[0] == "another" {
                extraCodec = OutputCodec(words[1])
                try perform(machine.addExtra(bySecondServer: false))
            } else {
                let sid = try translated(words[1])
                try perform(machine.mediaStarted(try #require(lines.tracks.first { $0.sid == sid })))
            }
        }
    }

    // MARK: The client's messages, with our identifiers

    private func translated(_ sid: String) throws -> String {
        let name = try #require(theirs.name(of: sid))
        return try #require(ours.sid(of: name), "our room has no \(name)")
    }

    private func translated(_ request: LiveKitSignalRequest) throws -> LiveKitSignalRequest {
        var copy = request
        switch request.message {
        case .answer(var answer):
            let index = try #require(theirs.offerIDs.lastIndex(of: answer.id))
            answer.id = try #require(index < ours.offerIDs.count ? ours.offerIDs[index] : nil)
            copy.message = .answer(answer)
        case .subscription(let update): copy.message = .subscription(try translated(update))
        case .syncState(var state):
            state.subscription = try translated(state.subscription)
            for index in state.publishTracks.indices {
                state.publishTracks[index].track.sid = try translated(state.publishTracks[index].track.sid)
            }
            copy.message = .syncState(state)
        case .mute(var mute):
            mute.sid = try translated(mute.sid)
            copy.message = .mute(mute)
        default: break
        }
        return copy
    }

    private func translated(_ update: LiveKitUpdateSubscription) throws -> LiveKitUpdateSubscription {
        var copy = update
        copy.trackSids = try update.trackSids.map(translated)
        copy.participantTracks = []
        return copy
    }

    // MARK: Our room's actions

    private mutating func perform(_ actions: [RoomStateMachine.Action]) throws {
        for action in actions {
            switch action {
            case .send(let response): ours.add(try #require(response.message))
            case .startMedia: if !isSingle { try perform(machine.mediaOffered(lines.offer(), [:])) }
            case .media(let request): try perform(request)
            case .ownerChanged, .awaitResume, .close: break
            }
        }
    }

    private mutating func perform(_ request: MediaRequest) throws {
        switch request {
        case .receiveOffer(let sdp, let codecs): try answer(ClientOffer(parsing: sdp, codecs, isSingle: isSingle))
        case .receiveAnswer(let sdp):
            try perform(machine.mediaBound(lines.answered(SDPDescription(parsing: sdp))))
        case .offer(let tracks) where isSingle: wanted = tracks
        case .offer(let tracks), .restartICE(let tracks):
            lines.set(tracks.map(output))
            try perform(machine.mediaOffered(lines.offer(), lines.mids.mapValues(\.sid)))
        default: break
        }
    }

    private mutating func answer(_ offer: ClientOffer) throws {
        let bindings = singleLines.place(
            wanted.map { output($0) }.map { (track: $0.0, stream: $0.1, codec: $0.2) }, on: offer)
        let streams = Dictionary(
            uniqueKeysWithValues: bindings.compactMap { each in
                singleLines.mids[each.track].map { ($0, each.stream) }
            })
        let answer = offer.answer(
            own: try SDPDescription(parsing: offer.normalised), streams: streams, used: singleLines.used)
        var room = RoomLines()
        for kind in MediaKind.allCases {
            let media = answer.media.filter { $0.kind == kind.rawValue && $0.port != 0 }
            let isReceived = media.contains { $0.has("recvonly") || $0.has("sendrecv") }
            if isReceived, offer.sentKinds.contains(kind.rawValue) { room.receiving.insert(kind) }
            guard isSingle else { continue }
            let track = bindings.map(\.track).first { $0.kind == kind }
            if track != nil { room.sending.insert(kind) }
            room.sendMids[kind] = track.flatMap { singleLines.mids[$0] } ?? offer.receivingMids(kind.rawValue).first
        }
        if !room.receiving.isEmpty {
            room.published = offer.published.mapValues { RoomLines.Published(mid: $0.mid, codec: $0.codec) }
        }
        let codecs = room.published.values.map { $0.codec.lowercased() }
        if let sent = codecs.first(where: { $0 != "opus" && $0 != "red" }) { codec = OutputCodec(sent) }
        try perform(machine.mediaAnswered(answer.text(sessionID: 1, version: 1), room))
        if isSingle { try perform(machine.mediaBound(bindings)) }
    }

    private func output(_ track: OutputTrack) -> (OutputTrack, OutputStream, OutputCodec) {
        let stream = OutputStream(
            msid: "PA|\(track.sid) \(track.sid)", ssrc: 1, rtxSSRC: track.kind == .video ? 2 : nil)
        return (track, stream, track.kind == .audio ? .opus : track.isExtra ? extraCodec : codec)
    }
}
