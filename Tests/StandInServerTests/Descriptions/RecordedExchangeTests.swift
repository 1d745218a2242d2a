// The descriptions that a LiveKit server (1.13.5) exchanged with clients, beside ours in the same situations.
//
// `Exchanges/NAME.txt` has the messages with descriptions and tracks, in order: who sent each one, and its bytes in base64;
// `join` and `reconnect` say that a connection begins. The client's messages are given to our values as they are, and what
// our values write must agree with the server's description in the kinds, order, directions, payload types, feedback,
// header extensions, simulcast layers and mids of all m-lines. Identifiers, credentials and candidates are free.
import DecartProtocol
import GStreamerKit
import LiveKitProtocol
import StandInServer
import TestSupport
import Testing
import WebRTCTransport

@Suite("Recorded descriptions of a LiveKit server", .timeLimit(.minutes(1)))
struct RecordedExchangeTests {
    private static let folder =
        "\(#filePath.dropLast("Descriptions/RecordedExchangeTests.swift".count))Exchanges/"

    /// The recorded exchanges, and the video codecs that their rooms allow.
    private static let exchanges: [(name: String, allowed: Set<String>?)] =
        [
            "bot_leaves", "bot_mutes", "deleted", "good_av", "muted_by_room", "no_permission", "paused", "removed",
            "republish", "republish_h264", "republish_overlap", "resume", "second_server", "second_track",
            "service_h264", "simulcast_low", "unsubscribe_permission", "v1_sdk_h264_simulcast", "v1_sdk_republish",
            "v1_sdk_resume", "v1_sdk_vp8",
        ].map { ($0, nil) } + [
            ("room_vp8_only", ["vp8", "opus"]),
            ("room_h264_only", ["h264", "opus"]),
        ]

    @Test(arguments: exchanges.map(\.name)) func descriptions(name: String) throws {
        GStreamerRuntime.initialise()
        let text = String(decoding: try readFile(Self.folder + "\(name).txt"), as: UTF8.self)
        var replay = Replay(
            isSingle: name.hasPrefix("v1_"), allowed: Self.exchanges.first { $0.name == name }?.allowed)
        for line in text.split(separator: "\n") { try replay.take(line) }
        #expect(replay.compared > 1)
    }
}

private struct Replay {
    private let isSingle: Bool
    private let allowed: Set<String>?
    private(set) var compared = 0
    private var codecs = PublishedCodecs()
    private var lines: SubscriberLines
    private var singleLines = SingleLines()
    private var clientOffer: String?
    /// The tracks of other participants by their SIDs.
    private var tracks: [String: (track: OutputTrack, codec: OutputCodec)] = [:]
    /// Tracks whose codec our values do not find in the latest answer.
    private var refused: Set<String> = []

    init(isSingle: Bool, allowed: Set<String>?) {
        (self.isSingle, self.allowed) = (isSingle, allowed)
        lines = SubscriberLines(allowed: allowed)
    }

    mutating func take(_ line: Substring) throws {
        let parts = line.split(separator: " ")
        if line == "join" {
            let fresh = Replay(isSingle: isSingle, allowed: allowed)
            let count = compared
            self = fresh
            compared = count
            codecs.allowed = allowed
        }
        guard parts.count == 2, let bytes = Base64.decode(String(parts[1]), alphabet: .standard) else { return }
        if parts[0] == "client" {
            try client(LiveKitSignalRequest(serializedBytes: bytes))
        } else {
            try server(LiveKitSignalResponse(serializedBytes: bytes))
        }
    }

    private mutating func client(_ request: LiveKitSignalRequest) throws {
        switch request.message {
        case .addTrack(let request):
            let announced = request.simulcastCodecs.first?.codec.lowercased()
            if let announced, allowed?.contains(announced) ?? true { codecs.announced[request.cid] = announced }
        case .offer(let offer): clientOffer = offer.sdp
        case .answer(let answer):
            let bindings = lines.answered(try SDPDescription(parsing: answer.sdp))
            refused = Set(bindings.filter { $0.payloadType == nil }.map(\.track.sid))
        default: break
        }
    }

    private mutating func server(_ response: LiveKitSignalResponse) throws {
        switch response.message {
        case .update(let update):
            for track in update.participants.flatMap(\.tracks) {
                let name = track.mimeType.split(separator: "/").last?.lowercased() ?? ""
                let kind: MediaKind = track.type == .audio ? .audio : .video
                tracks[track.sid] = (OutputTrack(kind, sid: track.sid), OutputCodec(name))
            }
        case .subscriptionResponse(let response):
            #expect(response.err == .seCodecUnsupported && refused.contains(response.trackSid))
        case .offer(let offer):
            lines.set(offer.midToTrackID.sorted { Int($0.key) ?? 0 < Int($1.key) ?? 0 }.compactMap { output($0.value) })
            try compare(SDPDescription(parsing: lines.offer()), offer.sdp)
            #expect(lines.mids.mapValues(\.sid) == offer.midToTrackID)
        case .answer(let answer):
            // The first answer of a single connection belongs to the offer in the request's URL.
            guard let clientOffer else { return }
            let offer = try ClientOffer(parsing: clientOffer, codecs, isSingle: isSingle)
            let outputs = answer.midToTrackID.values.sorted().compactMap { output($0) }
            let bindings = singleLines.place(
                outputs.map { (track: $0.0, stream: $0.1, codec: $0.2) }, on: offer)
            let streams = Dictionary(
                uniqueKeysWithValues: bindings.compactMap { each in
                    singleLines.mids[each.track].map { ($0, each.stream) }
                })
            #expect(Set(streams.keys) == Set(answer.midToTrackID.keys))
            let own = try SDPDescription(parsing: offer.normalised)
            try compare(offer.answer(own: own, streams: streams, used: singleLines.used), answer.sdp)
        default: break
        }
    }

    private func output(_ sid: String) -> (OutputTrack, OutputStream, OutputCodec)? {
        guard let (track, codec) = tracks[sid] else { return nil }
        let stream = OutputStream(msid: "PA|\(sid) \(sid)", ssrc: 1, rtxSSRC: track.kind == .video ? 2 : nil)
        return (track, stream, codec)
    }

    private mutating func compare(_ ours: SDPDescription, _ recorded: String) throws {
        let theirs = try SDPDescription(parsing: recorded)
        compared += 1
        #expect(ours.media.map(summary) == theirs.media.map(summary))
    }

    /// What must agree of an m-line. One thing differs on a single connection: we keep transport-cc on the m-line of a present
    /// or former track of ours, whose bitrate follows it. The server writes RTX and header extensions of its answers in any order.
    private func summary(_ media: SDPMedia) -> [String] {
        let isOurs = media.has("msid") || media.has("inactive")
        func sorted(_ name: String) -> [String] {
            media.values(name).filter { !isOurs || !$0.hasSuffix(" transport-cc") }.map { "\(name) \($0)" }.sorted()
        }
        let rtx = Set(
            media.values("rtpmap").filter { $0.hasSuffix(" rtx/90000") }.compactMap { $0.split(separator: " ").first })
        let types =
            media.formats.filter { !rtx.contains($0[...]) } + media.formats.filter { rtx.contains($0[...]) }.sorted()
        let direction = ["sendrecv", "sendonly", "recvonly", "inactive"].filter(media.has)
        var lines = ["\(media.kind) \(media.port) \(media.value("mid") ?? "-")", types.joined(separator: " ")]
        lines += direction
        for name in ["rtcp-fb", "extmap", "rid"] { lines += sorted(name) }
        lines += media.values("simulcast")
        return lines + [media.has("msid") ? "msid" : "no msid", media.has("rtcp-rsize") ? "rsize" : "no rsize"]
    }
}
