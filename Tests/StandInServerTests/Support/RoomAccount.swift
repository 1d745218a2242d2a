import GStreamerKit
import LiveKitProtocol

/// The messages of a room to a participant, in words that are the same for every server: tracks have names instead of SIDs.
///
/// A server sends the messages of one strand in a certain order, those of two strands in any order. It may repeat an
/// update.
struct RoomAccount {
    enum Strand: CaseIterable { case room, publishing, subscribing }

    private(set) var words: [Strand: [String]] = [:]
    /// All m-lines of each offer and answer, by their numbers.
    private(set) var descriptions: [String: String] = [:]
    private var joinCount = 0
    private var answerCount = 0
    /// IDs of the offers since the participant has joined.
    private(set) var offerIDs: [UInt32] = []
    private var isSingle = false
    private var ownSID = ""
    private var names: [String: String] = [:]
    private var latest: [String: String] = [:]

    func name(of sid: String) -> String? { names[sid] }
    func sid(of name: String) -> String? { names.first { $0.value == name }?.key }

    mutating func add(_ message: LiveKitSignalResponse.Message) {
        switch message {
        case .join(let join): joined(join)
        case .reconnect:
            latest = [:]
            for strand in Strand.allCases { add("reconnect", strand) }
        case .refreshToken: add("token", .room)
        case .roomUpdate: add("room", .room)
        case .leave(let leave): add("leave: \(leave.reason), \(leave.action)", .room)
        case .trackPublished(let published):
            name(published.track, of: "client")
            add("published \(text(of: published))", .publishing)
        case .answer(let answer):
            answerCount += 1
            describe("answer \(answerCount)", answer.sdp)
            add("answer", .publishing)
            // A single connection: the answer carries the room's tracks.
            if isSingle, words[.subscribing]?.last != "join" {
                add("answer \(text(of: answer.midToTrackID))", .subscribing)
            }
        case .update(let update): for participant in update.participants { add(participant) }
        case .trackSubscribed(let subscribed): addSubscribed("subscribed \(names[subscribed.trackSid] ?? "?")")
        case .subscribedQualityUpdate(let update):
            let codecs = update.subscribedCodecs.map { "\($0.codec): \(text(of: $0.qualities))" }
            addSubscribed(
                "subscribed layers of \(names[update.trackSid] ?? "?"): \(text(of: update.subscribedQualities)), "
                    + codecs.joined(separator: ", "))
        case .mute(let mute): add("\(mute.muted ? "mute" : "unmute") \(names[mute.sid] ?? "?")", .publishing)
        case .requestResponse(let response): add("refused: \(response.reason)", .publishing)
        case .trackUnpublished(let gone): add("unpublished \(names[gone.trackSid] ?? "?")", .publishing)
        case .offer(let offer):
            offerIDs.append(offer.id)
            describe("offer \(offerIDs.count)", offer.sdp)
            add("offer \(text(of: offer.midToTrackID))", .subscribing)
        case .subscriptionPermissionUpdate(let update):
            add("\(update.allowed ? "allowed" : "forbidden"): \(names[update.trackSid] ?? "?")", .subscribing)
        case .subscriptionResponse(let response):
            add("\(names[response.trackSid] ?? "?"): \(response.err)", .subscribing)
        case .streamStateUpdate(let update):
            for stream in update.streamStates { add("\(names[stream.trackSid] ?? "?"): \(stream.state)", .subscribing) }
        case .mediaSectionsRequirement(let needed):
            add("needed: \(needed.numVideos) video, \(needed.numAudios) audio", .subscribing)
        case .trickle, .pong, .pongResp, .connectionQuality, .roomMoved: break
        }
    }

    private mutating func add(_ word: String, _ strand: Strand) { words[strand, default: []].append(word) }

    /// These come in any order among each other.
    private mutating func addSubscribed(_ word: String) {
        var all = words[.publishing] ?? []
        let start = (all.lastIndex { !$0.hasPrefix("subscribed ") } ?? -1) + 1
        all.append(word)
        all[start...].sort()
        words[.publishing] = all
    }

    private mutating func joined(_ join: LiveKitJoinResponse) {
        (ownSID, offerIDs, names, latest) = (join.participant.sid, [], [:], [:])
        (joinCount, answerCount) = (joinCount + 1, 0)
        isSingle = !join.subscriberPrimary
        for strand in Strand.allCases { add("join", strand) }
        let codecs = join.enabledPublishCodecs.map { $0.mime.lowercased() }
        add(isSingle ? "one connection" : "two connections", .room)
        add("enabled: \(["video/vp8", "video/h264"].filter(codecs.contains))", .room)
        for participant in [join.participant] + join.otherParticipants {
            latest[owner(participant)] = text(of: participant)
        }
    }

    // MARK: Participants

    private func owner(_ participant: LiveKitParticipantInfo) -> String {
        participant.sid == ownSID ? "client" : participant.identity.hasSuffix("-2") ? "second service" : "service"
    }

    private mutating func add(_ participant: LiveKitParticipantInfo) {
        let owner = owner(participant)
        for track in participant.tracks { name(track, of: owner) }
        let text = text(of: participant)
        guard latest.updateValue(text, forKey: owner) != text else { return }
        add("\(owner): \(text)", owner == "client" ? .publishing : .subscribing)
    }

    private mutating func name(_ track: LiveKitTrackInfo, of owner: String) {
        let kind = "\(owner)'s \(track.type)"
        if names[track.sid] == nil { names[track.sid] = "\(kind) \(names.values.count { $0.hasPrefix(kind) } + 1)" }
    }

    private func text(of participant: LiveKitParticipantInfo) -> String {
        let tracks = participant.tracks.map { "\(names[$0.sid] ?? "?")\($0.muted ? ", muted" : "")" }.sorted()
        return participant.state == .disconnected ? "gone" : "[\(tracks.joined(separator: "; "))]"
    }

    // MARK: Texts

    private func text(of published: LiveKitTrackPublishedResponse) -> String {
        let track = published.track
        let codecs = track.codecs.map { "\($0.mimeType) of \($0.layers.count) layers" }
        let layers = track.layers.map { "\($0.quality)" }
        return "\(names[track.sid] ?? "?") as \(published.cid.count == 36 ? "cid" : published.cid): \(track.source), "
            + "\(track.width)x\(track.height), \(layers), \(codecs)\(track.simulcast ? ", simulcast" : "")"
    }

    private func text(of qualities: [LiveKitSubscribedQuality]) -> String {
        qualities.map { "\($0.quality) \($0.enabled)" }.joined(separator: " ")
    }

    private func text(of mids: [String: String]) -> String {
        "{" + mids.map { "\($0.key): \(names[$0.value] ?? "?")" }.sorted().joined(separator: ", ") + "}"
    }

    private mutating func describe(_ what: String, _ sdp: String) {
        let media = (try? SDPDescription(parsing: sdp))?.media ?? []
        descriptions["\(joinCount), \(what)"] = media.map(Self.summary).joined(separator: "\n")
    }

    /// What must agree of an m-line. One thing differs on a single connection: we keep transport-cc on the m-line of a present
    /// or former track of ours, whose bitrate follows it. The server writes RTX and header extensions of its answers in any order.
    private static func summary(_ media: SDPMedia) -> String {
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
        lines += [media.has("msid") ? "msid" : "no msid", media.has("rtcp-rsize") ? "rsize" : "no rsize"]
        return lines.joined(separator: ", ")
    }
}
