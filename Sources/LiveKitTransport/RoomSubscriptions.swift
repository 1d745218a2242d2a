// Whose tracks can be had in a room, and which of them we asked for. A value; it knows no connection.
import DecartProtocol
import LiveKitProtocol
import SwiftProtobuf
import WebRTCTransport

struct RoomSubscriptions: Sendable {
    enum Change: Sendable {
        case ask(LiveKitUpdateSubscription)
        /// One whose tracks could be had.
        case left(leavesNothing: Bool)
    }

    /// Whose identity does not begin with it is none of our business.
    private let sourcePrefix: String
    /// Tracks that can be had, by participant.
    private var sources: [String: [String: MediaKind]] = [:]
    /// Those that we asked for.
    private var subscribed: Set<String> = []
    /// Participants of whom we have asked for tracks. Between two generations they may have none.
    private var shown: Set<String> = []
    /// What comes on which m-line, where the server says it.
    private var tracksByMid: [String: String] = [:]

    /// Of a peer's: more participants or tracks than any session has.
    private static let maximumParticipants = 64

    init(sourcePrefix: String) { self.sourcePrefix = sourcePrefix }

    /// Takes note of the inference server's tracks, and of nobody else's, and asks for those that are wanted.
    mutating func take(_ participants: [LiveKitParticipantInfo], withSound: Bool) -> [Change] {
        var changes: [Change] = []
        for participant in participants.prefix(Self.maximumParticipants) where participant.identity.hasPrefix(sourcePrefix) {
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
            // What is gone may come back under its old name.
            subscribed.subtract((sources[participant.sid] ?? [:]).keys.filter { tracks[$0] == nil })
            sources[participant.sid] = tracks
            if let change = ask(participant.sid, participant.tracks.map(\.sid), withSound) { changes.append(change) }
        }
        return changes
    }

    /// Sound is listened to from now on, or not any more.
    mutating func listen(_ isWanted: Bool) -> [Change] {
        let all = sources
        guard !isWanted else { return all.compactMap { ask($0.key, $0.value.keys.sorted(), true) } }
        return all.compactMap { participant, tracks in
            let gone = tracks.filter { $0.value == .audio && subscribed.contains($0.key) }.keys.sorted()
            guard !gone.isEmpty else { return nil }
            subscribed.subtract(gone)
            return .ask(update(participant, gone, false))
        }
    }

    private mutating func ask(_ participant: String, _ tracks: [String], _ withSound: Bool) -> Change? {
        let fresh = tracks.filter { sid in
            let kind = sources[participant]?[sid]
            return (kind == .video || kind == .audio && withSound) && !subscribed.contains(sid)
        }
        guard !fresh.isEmpty else { return nil }
        subscribed.formUnion(fresh)
        shown.insert(participant)
        return .ask(update(participant, fresh, true))
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

    /// What an answer of the server's says of its m-lines.
    mutating func note(_ tracks: [String: String]) {
        if tracks.count <= Self.maximumParticipants { tracksByMid = tracks }
    }

    /// Whether a track, by its m-line or as `stream track`, was asked for: nobody else's picture is shown.
    func isWanted(mid: String?, msid: String?) -> Bool {
        if let mid, let track = tracksByMid[mid] { return subscribed.contains(track) }
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
