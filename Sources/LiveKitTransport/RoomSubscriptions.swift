// The tracks that are available in a room, and those that we subscribed to. A value; it knows no connection.
//
// We subscribe to one track of each kind: the one that became available last, so that a service may publish the next track
// before it ends the previous one. All others cost neither bandwidth nor a decoder.
import DecartProtocol
import DecartSession
import LiveKitProtocol
import RTP
import WebRTCTransport

struct RoomSubscriptions: Sendable {
    enum Change: Sendable, Equatable {
        case subscribe(LiveKitUpdateSubscription)
        /// A participant with available tracks left; `leavesNothing` if no other one that we subscribed to remains.
        case left(leavesNothing: Bool)
    }

    private struct Track {
        let sid: String
        let participant: String
        let kind: MediaKind
        /// Tracks that became available later have a higher one.
        let order: UInt64
        /// "video/H264"; empty if the server does not tell.
        var mimeType: String
        /// The participant sends nothing on purpose.
        var isMuted: Bool
        /// The server forwards nothing, because our network carries too little.
        var isPaused = false
    }

    /// Participants whose identity does not begin with this prefix are ignored.
    private static let sourcePrefix = "inference-server-"
    /// Limit for a server's lists: more participants or tracks than any session has.
    private static let maximumParticipants = 64
    private static let maximumTracks = 256
    /// Bytes of an ID or a type. They are kept.
    private static let longestName = 256

    /// SIDs of the inference servers in the room.
    private var sources: Set<String> = []
    /// Their tracks, by SID.
    private var tracks: [String: Track] = [:]
    /// SIDs of the tracks that we subscribed to.
    private var subscribed: Set<String> = []
    /// SIDs of participants with tracks that we subscribed to. Between two generations they may have no track.
    private var shown: Set<String> = []
    private var lastOrder: UInt64 = 0
    private var wantsAudio = false

    /// Records the tracks of inference servers and ignores all other participants; subscribes to the newest tracks.
    mutating func update(_ participants: [LiveKitParticipantInfo]) -> [Change] {
        /// One entry for each participant that left; true: we were subscribed to a track of it.
        var left: [Bool] = []
        for participant in participants.prefix(Self.maximumParticipants)
        where participant.identity.hasPrefix(Self.sourcePrefix) && participant.sid.utf8.count <= Self.longestName {
            guard participant.state != .disconnected else {
                guard sources.remove(participant.sid) != nil else { continue }
                record([], of: participant.sid)
                left.append(shown.remove(participant.sid) != nil)
                continue
            }
            guard sources.contains(participant.sid) || sources.count < Self.maximumParticipants else { continue }
            sources.insert(participant.sid)
            record(Array(participant.tracks.prefix(Self.maximumParticipants)), of: participant.sid)
        }
        let changes = reconcile()
        return changes + left.map { .left(leavesNothing: $0 && shown.isEmpty) }
    }

    private mutating func record(_ list: [LiveKitTrackInfo], of participant: String) {
        let listed = Set(list.map(\.sid))
        for (sid, track) in tracks where track.participant == participant && !listed.contains(sid) {
            tracks[sid] = nil
            // A removed track may come back under the same SID.
            subscribed.remove(sid)
        }
        for info in list where (1...Self.longestName).contains(info.sid.utf8.count) {
            let kind: MediaKind? = info.type == .video ? .video : info.type == .audio ? .audio : nil
            guard let kind else { continue }
            if tracks[info.sid] == nil {
                guard tracks.count < Self.maximumTracks else { continue }
                lastOrder &+= 1
                tracks[info.sid] = Track(
                    sid: info.sid, participant: participant, kind: kind, order: lastOrder, mimeType: "", isMuted: false)
            }
            tracks[info.sid]?.mimeType = info.mimeType.utf8.count <= Self.longestName ? info.mimeType : ""
            tracks[info.sid]?.isMuted = info.muted
        }
    }

    /// Subscribes to the newest available audio, or unsubscribes from it.
    mutating func setAudio(_ isWanted: Bool) -> [Change] {
        wantsAudio = isWanted
        return reconcile()
    }

    private func newest(_ kind: MediaKind) -> Track? {
        tracks.values.filter { $0.kind == kind }.max { $0.order < $1.order }
    }

    /// Subscribes to what is wanted before it unsubscribes from what is not: the next track is then on its way while the
    /// previous one is still shown.
    private mutating func reconcile() -> [Change] {
        let wanted = [newest(.video), wantsAudio ? newest(.audio) : nil].compactMap(\.self)
        let fresh = wanted.filter { !subscribed.contains($0.sid) }
        let gone = subscribed.subtracting(wanted.map(\.sid)).compactMap { tracks[$0] }
        subscribed = Set(wanted.map(\.sid))
        shown.formUnion(fresh.map(\.participant))
        return requests(fresh, true) + requests(gone, false)
    }

    /// One request for each participant.
    private func requests(_ list: [Track], _ isWanted: Bool) -> [Change] {
        Dictionary(grouping: list, by: \.participant).sorted { $0.key < $1.key }
            .map { .subscribe(Self.update($0.value, isWanted)) }
    }

    /// All subscriptions, for a server that restores them.
    var current: LiveKitUpdateSubscription { Self.update(subscribed.compactMap { tracks[$0] }, true) }

    private static func update(_ list: [Track], _ isWanted: Bool) -> LiveKitUpdateSubscription {
        let list = list.sorted { $0.order < $1.order }
        return .with {
            ($0.subscribe, $0.trackSids) = (isWanted, list.map(\.sid))
            $0.participantTracks = Dictionary(grouping: list, by: \.participant).sorted { $0.key < $1.key }
                .map { participant, tracks in
                    .with { ($0.participantSid, $0.trackSids) = (participant, tracks.map(\.sid)) }
                }
        }
    }

    /// True if we subscribed to the track, which its `msid` (`stream track`) identifies: no other participant's video is
    /// ever shown.
    func isWanted(msid: String?) -> Bool {
        guard let msid else { return false }
        let parts = msid.split(separator: " ").flatMap { $0.split(separator: "|") }.map(String.init)
        let named = parts.filter { tracks[$0] != nil }
        guard named.isEmpty else { return named.contains(where: subscribed.contains) }
        return subscribed.contains { sid in tracks[sid].map { parts.contains($0.participant) } ?? false }
    }

    // MARK: States

    /// Why no video comes although we subscribed to it; nil: it should come.
    var hold: MediaHold? {
        guard let video = newest(.video), subscribed.contains(video.sid) else { return nil }
        return video.isMuted ? .mutedBySender : video.isPaused ? .pausedByNetwork : nil
    }

    mutating func update(_ states: [LiveKitStreamStateInfo]) {
        for state in states { tracks[state.trackSid]?.isPaused = state.state == .paused }
    }

    /// The format of a track that we subscribed to, "H264"; nil for another track, empty if it is not known.
    func format(of sid: String) -> String? {
        guard subscribed.contains(sid) else { return nil }
        return tracks[sid].map { RoomCodecs.name(ofMIMEType: $0.mimeType) }
    }
}
