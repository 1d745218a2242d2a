// The tracks that are available in a room, and those that we subscribed to. A value; it knows no connection.
import DecartProtocol
import LiveKitProtocol
import WebRTCTransport

struct RoomSubscriptions: Sendable {
    enum Change: Sendable {
        case subscribe(LiveKitUpdateSubscription)
        /// A participant with available tracks left; `leavesNothing` if no other one that we subscribed to remains.
        case left(leavesNothing: Bool)
    }

    /// Participants whose identity does not begin with this prefix are ignored.
    private static let sourcePrefix = "inference-server-"
    /// Available tracks, by the participant's SID.
    private var sources: [String: [String: MediaKind]] = [:]
    /// SIDs of the tracks that we subscribed to.
    private var subscribed: Set<String> = []
    /// SIDs of participants with tracks that we subscribed to. Between two generations they may have no track.
    private var shown: Set<String> = []

    /// Limit for a server's lists: more participants or tracks than any session has.
    private static let maximumParticipants = 64

    /// Records the tracks of inference servers and ignores all other participants; subscribes to the wanted tracks.
    mutating func update(_ participants: [LiveKitParticipantInfo], withAudio: Bool) -> [Change] {
        var changes: [Change] = []
        for participant in participants.prefix(Self.maximumParticipants)
        where participant.identity.hasPrefix(Self.sourcePrefix) {
            guard participant.state != .disconnected else {
                let tracks = sources.removeValue(forKey: participant.sid) ?? [:]
                let wasShown = shown.remove(participant.sid) != nil
                subscribed.subtract(tracks.keys)
                changes.append(.left(leavesNothing: wasShown && shown.isEmpty))
                continue
            }
            guard sources[participant.sid] != nil || sources.count < Self.maximumParticipants else { continue }
            var tracks: [String: MediaKind] = [:]
            for track in participant.tracks.prefix(Self.maximumParticipants) where !track.sid.isEmpty {
                if track.type == .video { tracks[track.sid] = .video }
                if track.type == .audio { tracks[track.sid] = .audio }
            }
            // A removed track may come back under the same SID.
            subscribed.subtract((sources[participant.sid] ?? [:]).keys.filter { tracks[$0] == nil })
            sources[participant.sid] = tracks
            if let change = request(participant.sid, participant.tracks.map(\.sid), withAudio) {
                changes.append(change)
            }
        }
        return changes
    }

    /// Subscribes to the available audio, or unsubscribes from it.
    mutating func setAudio(_ isWanted: Bool) -> [Change] {
        let all = sources
        guard !isWanted else { return all.compactMap { request($0.key, $0.value.keys.sorted(), true) } }
        return all.compactMap { participant, tracks in
            let gone = tracks.filter { $0.value == .audio && subscribed.contains($0.key) }.keys.sorted()
            guard !gone.isEmpty else { return nil }
            subscribed.subtract(gone)
            return .subscribe(update(participant, gone, false))
        }
    }

    /// All subscriptions, for a server that restores them.
    var current: LiveKitUpdateSubscription {
        .with {
            $0.subscribe = true
            $0.trackSids = subscribed.sorted()
            $0.participantTracks = sources.keys.sorted().compactMap { participant in
                let tracks = (sources[participant] ?? [:]).keys.filter(subscribed.contains).sorted()
                guard !tracks.isEmpty else { return nil }
                return .with { ($0.participantSid, $0.trackSids) = (participant, tracks) }
            }
        }
    }

    private mutating func request(_ participant: String, _ tracks: [String], _ withAudio: Bool) -> Change? {
        let fresh = tracks.filter { sid in
            let kind = sources[participant]?[sid]
            return (kind == .video || kind == .audio && withAudio) && !subscribed.contains(sid)
        }
        guard !fresh.isEmpty else { return nil }
        subscribed.formUnion(fresh)
        shown.insert(participant)
        return .subscribe(update(participant, fresh, true))
    }

    private func update(_ participant: String, _ tracks: [String], _ isWanted: Bool) -> LiveKitUpdateSubscription {
        .with {
            $0.trackSids = tracks
            $0.subscribe = isWanted
            $0.participantTracks = [
                .with {
                    $0.participantSid = participant
                    $0.trackSids = tracks
                }
            ]
        }
    }

    /// True if we subscribed to the track, which its `msid` (`stream track`) identifies: no other participant's video is
    /// ever shown.
    func isWanted(msid: String?) -> Bool {
        guard let msid else { return false }
        let parts = msid.split(separator: " ").flatMap { $0.split(separator: "|") }.map(String.init)
        for (participant, tracks) in sources {
            let named = parts.filter { tracks[$0] != nil }
            if named.contains(where: subscribed.contains) { return true }
            if named.isEmpty, parts.contains(participant), !subscribed.isDisjoint(with: tracks.keys) { return true }
        }
        return false
    }
}
