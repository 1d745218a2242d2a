// The signalling of a room's one participant as a value: told facts, it answers with orders. It knows no socket, clock,
// thread or media; `RoomHandler` drives it and carries the orders out.
import DecartProtocol
import LiveKitProtocol
import SwiftProtobuf
import WebRTCTransport

/// The two connections of a participant. Where there is one for both directions, it is the publisher.
package enum RoomSide: Sendable, Hashable {
    /// Brings the participant's own tracks; the participant offers.
    case publisher
    /// Takes the transformed track; the room offers.
    case subscriber
}

struct RoomConversation {
    enum Order: Sendable, Equatable {
        case send(LiveKitSignalResponse)
        case startMedia
        case receiveOffer(String)
        case receiveAnswer(String)
        /// Nil: no more candidates.
        case addCandidate(CandidateMessage?, RoomSide)
        /// With these tracks of the inference server and no others; of one connection, the next answer.
        case offer(Set<MediaKind>)
        /// The picture is on an m-line of its own in offers from now on.
        case moveVideo
        case close
    }

    private let room: RoomIdentity
    private let isSubscribedToAll: Bool
    private let isViewer: Bool
    private let isSingle: Bool
    private let ice: RoomICE
    private var isOver = false
    private var publishedTracks: [String: LiveKitTrackInfo] = [:]
    private static let maximumTrackCount = 20
    /// Of the participant's offers, in order; the answers repeat them.
    private var offerIDs: [UInt32] = []
    private static let maximumOpenOfferCount = 16
    private var lastOfferID: UInt32 = 0
    /// The participant has answered our last offer.
    private var isStable = false
    /// What comes from the participant.
    private var comes: Set<MediaKind> = []
    /// What the participant has asked for.
    private var wanted: Set<MediaKind>
    /// What the inference server publishes: the picture from the first one on, the sound while there is some.
    private var announced: Set<MediaKind>
    private var announcementCount: UInt32 = 1
    /// No generation runs, and the picture has left the room.
    private var isWithdrawn = false
    private var videoSID: String
    private var offered: Set<MediaKind> = []
    /// Of one connection: tracks for which the participant has an m-line.
    private var takers: Set<MediaKind> = []
    /// The last one of each side waits for the next, so that it can be marked as the last.
    private var heldCandidates: [RoomSide: CandidateMessage] = [:]

    /// - Parameters:
    ///   - isSubscribedToAll: without being asked for single tracks.
    ///   - isViewer: brings nothing: the track is there from the beginning.
    ///   - isSingle: one connection serves both directions: the participant offers, always.
    init(room: RoomIdentity, isSubscribedToAll: Bool, isViewer: Bool = false, isSingle: Bool = false, ice: RoomICE) {
        self.room = room
        videoSID = room.trackSID
        self.isSingle = isSingle
        self.isViewer = isViewer
        announced = isViewer ? [.video] : []
        self.ice = ice
        self.isSubscribedToAll = isSubscribedToAll
        wanted = isSubscribedToAll ? Set(MediaKind.allCases) : []
    }

    // MARK: The beginning

    mutating func opened(token: String) -> [Order] {
        var join = LiveKitJoinResponse()
        join.room.sid = room.sid
        join.room.name = room.name
        join.room.numParticipants = 2
        join.participant = participant
        join.otherParticipants = [inferenceServer]
        join.serverVersion = "1.9.0"
        join.serverInfo.version = "1.9.0"
        join.serverInfo.protocol = 16
        join.subscriberPrimary = !isSingle
        ice.fill(&join)
        join.pingInterval = 5
        join.pingTimeout = 15
        join.enabledPublishCodecs = ["video/VP8", "video/H264", "video/VP9"].map { mime in
            var codec = LiveKitCodec()
            codec.mime = mime
            return codec
        }
        return [.send(.join(join)), .send(.with { $0.refreshToken = token }), .startMedia]
    }

    /// What came with the request for one connection.
    mutating func joined(_ join: LiveKitJoinRequest) -> [Order] {
        let tracks = join.addTrackRequests.prefix(Self.maximumTrackCount).flatMap { received($0) }
        guard join.hasPublisherOffer else { return tracks }
        offerIDs.append(join.publisherOffer.id)
        return tracks + [.receiveOffer(join.publisherOffer.sdp)]
    }

    /// The participant wants to go on with what it had: it has to begin anew.
    mutating func openedToResume() -> [Order] {
        leave(.reconnect, reason: .stateMismatch)
    }

    private var participant: LiveKitParticipantInfo {
        var info = LiveKitParticipantInfo()
        info.sid = room.participantSID
        info.identity = room.participant
        info.state = .joined
        info.tracks = publishedTracks.values.sorted { $0.sid < $1.sid }
        info.isPublisher = !publishedTracks.isEmpty
        return info
    }

    private var inferenceServer: LiveKitParticipantInfo {
        var info = LiveKitParticipantInfo()
        info.sid = room.inferenceSID
        info.identity = room.inferenceServer
        info.state = .active
        info.kind = .agent
        info.version = announcementCount
        info.tracks = MediaKind.allCases.filter(announced.contains).map(track)
        info.isPublisher = !announced.isEmpty
        return info
    }

    private func track(_ kind: MediaKind) -> LiveKitTrackInfo {
        var track = LiveKitTrackInfo()
        track.sid = sid(kind)
        track.type = kind == .video ? .video : .audio
        track.source = kind == .video ? .camera : .microphone
        track.name = kind == .video ? "transformed" : "sound"
        return track
    }

    private func sid(_ kind: MediaKind) -> String { kind == .video ? videoSID : room.audioTrackSID }

    /// The media know the picture by its first name.
    private func renamed(_ sdp: String) -> String {
        videoSID == room.trackSID ? sdp : sdp.replacing(room.trackSID, with: videoSID)
    }

    // MARK: The participant

    /// - Parameter now: milliseconds since 1970.
    mutating func received(_ request: LiveKitSignalRequest, now: Int64) -> [Order] {
        guard !isOver else { return [] }
        switch request.message {
        case .offer(let description):
            guard !isViewer else { return [] }
            guard offerIDs.count < Self.maximumOpenOfferCount else { return leave(.disconnect, reason: .stateMismatch) }
            offerIDs.append(description.id)
            return [.receiveOffer(description.sdp)]
        case .answer(let description):
            isStable = true
            return [.receiveAnswer(description.sdp)] + offerIfDue()
        case .trickle(let trickle): return received(trickle)
        case .addTrack(let request): return received(request)
        case .subscription(let update): return received(update)
        case .leave:
            isOver = true
            return [.close]
        case .ping: return [.send(.with { $0.pong = now })]
        case .pingReq(let ping):
            var pong = LiveKitPong()
            pong.lastPingTimestamp = ping.timestamp
            pong.timestamp = now
            return [.send(.with { $0.pongResp = pong })]
        case .mute, .trackSetting, .syncState, nil: return []
        }
    }

    private func received(_ trickle: LiveKitTrickleRequest) -> [Order] {
        let side: RoomSide = trickle.target == .subscriber ? .subscriber : .publisher
        guard let candidate = try? CandidateMessage(decodingInit: Array(trickle.candidateInit.utf8)) else { return [] }
        return [.addCandidate(candidate.candidate.isEmpty ? nil : candidate, side)]
    }

    private mutating func received(_ request: LiveKitAddTrackRequest) -> [Order] {
        let isKnown = publishedTracks[request.cid] != nil
        guard request.type != .data, !isViewer, isKnown || publishedTracks.count < Self.maximumTrackCount else {
            var refusal = LiveKitRequestResponse()
            refusal.reason = .notAllowed
            refusal.message = isViewer ? "viewers publish nothing" : "this track is not taken"
            refusal.addTrack = request
            return [.send(.with { $0.requestResponse = refusal })]
        }
        var track = LiveKitTrackInfo()
        track.sid = publishedTracks[request.cid]?.sid ?? RoomIdentity.sid("TR")
        track.type = request.type
        track.name = request.name
        track.source = request.source
        track.width = request.width
        track.height = request.height
        track.muted = request.muted
        track.layers = Array(request.layers.prefix(3))
        track.stream = request.stream
        publishedTracks[request.cid] = track
        var published = LiveKitTrackPublishedResponse()
        published.cid = request.cid
        published.track = track
        return [.send(.with { $0.trackPublished = published })]
    }

    private mutating func received(_ update: LiveKitUpdateSubscription) -> [Order] {
        let sids = update.trackSids + update.participantTracks.flatMap(\.trackSids)
        let kinds = MediaKind.allCases.filter { sids.contains(sid($0)) }
        if update.subscribe { wanted.formUnion(kinds) } else { wanted.subtract(kinds) }
        return offerIfDue()
    }

    // MARK: The media

    mutating func mediaAnswered(_ sdp: String, _ lines: RoomLines) -> [Order] {
        guard !isOver, !offerIDs.isEmpty else { return [] }
        var answer = LiveKitSessionDescription()
        answer.type = "answer"
        answer.sdp = renamed(sdp)
        answer.id = offerIDs.removeFirst()
        for (kind, mid) in lines.takers where lines.goes.contains(kind) { answer.midToTrackID[mid] = sid(kind) }
        takers = Set(lines.takers.keys)
        if isSingle { isStable = true }
        let comes = lines.comes
        var orders: [Order] = [.send(.with { $0.answer = answer })] + unpublished(self.comes.subtracting(comes))
        self.comes = comes
        var tracks = comes
        if announced.contains(.video) { tracks.insert(.video) }
        if isWithdrawn { tracks.remove(.video) }
        guard tracks != announced else { return orders }
        orders += announce(tracks)
        return orders
    }

    private mutating func announce(_ tracks: Set<MediaKind>) -> [Order] {
        announced = tracks
        announcementCount &+= 1
        // A track is told of before the offer that carries it.
        var update = LiveKitParticipantUpdate()
        update.participants = [inferenceServer]
        return [.send(.with { $0.update = update })] + offerIfDue()
    }

    mutating func withdrawOutput() -> [Order] {
        guard !isOver, !isWithdrawn else { return [] }
        isWithdrawn = true
        guard announced.contains(.video) else { return [] }
        // Who wants it again has to ask again.
        if !isSubscribedToAll { wanted.remove(.video) }
        return announce(announced.subtracting([.video]))
    }

    mutating func restartOutput(_ output: Fault.Output) -> [Order] {
        guard !isOver, isWithdrawn else { return [] }
        isWithdrawn = false
        if output == .newSID { videoSID = RoomIdentity.sid("TR") }
        // A participant that makes all offers also says which m-line is free.
        let move: [Order] = output == .newMID && !isSingle ? [.moveVideo] : []
        return move + (isViewer || comes.contains(.video) ? announce(announced.union([.video])) : [])
    }

    /// The participant has withdrawn tracks: to be published again they have to be announced again.
    private mutating func unpublished(_ kinds: Set<MediaKind>) -> [Order] {
        let types = kinds.map { kind -> LiveKitTrackType in kind == .video ? .video : .audio }
        let gone = publishedTracks.filter { types.contains($0.value.type) }
        return gone.map { cid, track in
            publishedTracks[cid] = nil
            var unpublished = LiveKitTrackUnpublishedResponse()
            unpublished.trackSid = track.sid
            return .send(.with { $0.trackUnpublished = unpublished })
        }
    }

    mutating func mediaOffered(_ sdp: String) -> [Order] {
        guard !isOver else { return [] }
        lastOfferID &+= 1
        var offer = LiveKitSessionDescription()
        offer.type = "offer"
        offer.sdp = renamed(sdp)
        offer.id = lastOfferID
        return [.send(.with { $0.offer = offer })]
    }

    /// One offer after the other.
    private mutating func offerIfDue() -> [Order] {
        let due = announced.intersection(wanted)
        guard isStable, due != offered else { return [] }
        offered = due
        guard isSingle else {
            isStable = false
            return [.offer(due)]
        }
        // The participant offers, also when it has lines enough: our answer holds the tracks.
        let needed = due.subtracting(takers)
        var requirement = LiveKitMediaSectionsRequirement()
        (requirement.numVideos, requirement.numAudios) = (needed.contains(.video) ? 1 : 0, needed.contains(.audio) ? 1 : 0)
        return [.offer(due), .send(.with { $0.mediaSectionsRequirement = requirement })]
    }

    mutating func mediaFound(_ candidate: CandidateMessage?, _ side: RoomSide) -> [Order] {
        guard !isOver else { return [] }
        let ready = heldCandidates[side]
        heldCandidates[side] = candidate
        guard let text = try? ready?.encodedInit() else { return [] }
        var trickle = LiveKitTrickleRequest()
        trickle.candidateInit = String(decoding: text, as: UTF8.self)
        trickle.target = side == .subscriber ? .subscriber : .publisher
        trickle.final = candidate == nil
        return [.send(.with { $0.trickle = trickle })]
    }

    /// The participant's own connection is up: somebody takes its video.
    mutating func mediaConnected(_ side: RoomSide) -> [Order] {
        guard !isOver, side == .publisher else { return [] }
        return publishedTracks.values.filter { $0.type == .video }.map { track in
            var subscribed = LiveKitTrackSubscribed()
            subscribed.trackSid = track.sid
            return .send(.with { $0.trackSubscribed = subscribed })
        }
    }

    // MARK: The end

    mutating func mediaFailed() -> [Order] { leave(.reconnect, reason: .connectionTimeout) }

    mutating func leave(_ action: LiveKitLeaveRequest.Action, reason: LiveKitDisconnectReason) -> [Order] {
        guard !isOver else { return [] }
        isOver = true
        var leave = LiveKitLeaveRequest()
        leave.action = action
        leave.canReconnect = action != .disconnect
        leave.reason = reason
        return [.send(.with { $0.leave = leave }), .close]
    }
}

extension LiveKitSignalResponse {
    fileprivate static func join(_ join: LiveKitJoinResponse) -> Self { .with { $0.join = join } }
}
