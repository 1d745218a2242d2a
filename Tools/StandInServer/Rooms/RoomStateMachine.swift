// The signalling of a room's participant as a state machine: takes events and returns actions. It knows no socket,
// clock, thread or media; `RoomHandler` drives it and carries the actions out.
import DecartProtocol
import RTP
package import LiveKitProtocol
import WebRTCTransport

package struct RoomStateMachine {
    package enum Action: Sendable, Equatable {
        case send(LiveKitSignalResponse)
        case startMedia
        case media(MediaRequest)
        /// The participant's tracks have changed, or one was muted: viewers see it.
        case ownerChanged(LiveKitParticipantInfo)
        /// Removes the participant unless it resumes soon.
        case awaitResume
        case close
    }

    struct Stay {
        var room: RoomIdentity
        var join: RoomAdmission.RoomJoin
        var options: RoomOptions
        /// A viewer: features of the trailers in the watched session.
        var watchedTrailers: [LiveKitPacketTrailerFeature]
        /// A viewer: the watched session has audio.
        var watchesAudio: Bool
        /// Ends the frames that the room itself makes.
        var fillerTrailer: [UInt8] = []
    }

    /// The stay of a session's client in a room of its own.
    package init(autoSubscribes: Bool, isSingle: Bool, options: RoomOptions) {
        let join = RoomAdmission.RoomJoin(
            autoSubscribe: autoSubscribes, isResume: false, viewer: nil, host: nil, path: "",
            single: isSingle ? LiveKitJoinRequest() : nil)
        self.init(
            Stay(room: RoomIdentity(), join: join, options: options, watchedTrailers: [], watchesAudio: false))
    }

    private let stay: Stay
    private(set) var isOver = false
    /// `active` once the primary media path has been established: the subscriber's of two.
    private var state = LiveKitParticipantInfo.State.joining
    /// A media path has been established; otherwise the participant cannot resume.
    private(set) var hasBeenConnected = false
    /// The participant has a signalling connection.
    private var isSignalling = true
    private var publishedTracks: [String: LiveKitTrackInfo] = [:]
    private static let maximumTrackCount = 20
    /// IDs of the participant's unanswered offers, in order; each answer repeats one.
    private var offerIDs: [UInt32] = []
    private static let maximumOpenOfferCount = 16
    private var lastOfferID: UInt32 = 0
    /// The participant has answered our latest offer.
    private var isStable = false
    private var receiving: Set<MediaKind> = []
    /// Kinds that the participant subscribes to.
    private var wanted: Set<MediaKind>
    /// Kinds that the inference server publishes: video once the participant has sent some, audio while it sends some.
    private var announced: Set<MediaKind>
    private var announcementCount: UInt32 = 1
    private var participantVersion: UInt32 = 1
    /// The generation has ended, and the video track is unpublished.
    private var isWithdrawn = false
    private var videoSID: String
    private var audioSID = RoomIdentity.sid("TR")
    /// How often the inference server has published a track of each kind.
    private var publications: [MediaKind: Int] = [.video: 1, .audio: 1]
    private var offered: [OutputTrack] = []
    /// The m-lines and codecs of the participant's tracks, by its IDs.
    private var publishedLines: [String: RoomLines.Published] = [:]
    /// A track beside the transformed video, and its publisher if that is another inference server.
    private var extra: (track: OutputTrack, server: LiveKitParticipantInfo?)?
    private var wantsExtra = false
    private var isOutputMuted = false
    private var isPublisherConnected = false
    /// The participant's tracks whose subscribers it knows.
    private var reportedTracks: Set<String> = []
    /// Single connection: kinds for which the participant's offer has an m-line.
    private var sendMids: Set<MediaKind> = []
    /// The latest candidate of each side, held back until the next one so that the last can be marked as final.
    private var heldCandidates: [RoomSide: CandidateMessage] = [:]

    init(_ stay: Stay) {
        self.stay = stay
        videoSID = stay.room.trackSID
        announced = stay.join.isViewer ? stay.watchesAudio ? [.video, .audio] : [.video] : []
        wanted = stay.join.autoSubscribe ? Set(MediaKind.allCases) : []
    }

    // MARK: Joining

    /// - Parameter owner: A viewer sees this participant beside the inference server.
    package mutating func opened(token: String, owner: LiveKitParticipantInfo? = nil) -> [Action] {
        var join = LiveKitJoinResponse()
        join.room = roomMessage
        join.participant = participant
        join.otherParticipants = [inferenceServer, owner].compactMap(\.self)
        join.serverVersion = Self.serverInfo.version
        join.serverInfo = Self.serverInfo
        join.subscriberPrimary = !stay.join.isSingle
        stay.options.ice.fill(&join)
        join.pingInterval = 5
        join.pingTimeout = 15
        join.enabledPublishCodecs = (allowedVideo.map { "video/\($0.uppercased())" } + ["audio/opus", "audio/red"]).map
        {
            mime in .with { $0.mime = mime }
        }
        join.sifTrailer = stay.fillerTrailer
        join.fastPublish = true
        state = .joined
        return [.send(.with { $0.join = join }), .send(.with { $0.refreshToken = token }), .startMedia]
    }

    /// The video codecs that a participant may publish, in the order of LiveKit's servers.
    private var allowedVideo: [String] {
        RoomCodec.allCases.filter { stay.options.allowedCodecs?.contains($0) ?? true }.map(\.rawValue)
    }

    /// Handles the tracks and the offer of a join request for a single connection.
    package mutating func joined(_ join: LiveKitJoinRequest) -> [Action] {
        let tracks = join.addTrackRequests.prefix(Self.maximumTrackCount).flatMap { received($0) }
        guard let offer = join.$publisherOffer else { return tracks }
        offerIDs.append(offer.id)
        return tracks + [.media(.receiveOffer(offer.sdp, codecs))]
    }

    private static let serverInfo = LiveKitServerInfo.with { ($0.version, $0.protocol) = ("1.13.5", 17) }

    // MARK: Resuming

    package mutating func signallingLost() {
        isSignalling = false
    }

    /// The participant signals over another connection. With two connections, the room restarts ICE on the one for
    /// which it makes the offers.
    package mutating func resumed(token: String) -> [Action] {
        guard !isOver else { return [] }
        isSignalling = true
        let greeting: [Action] = [
            .send(
                .with {
                    stay.options.ice.fill(&$0.reconnect)
                    $0.reconnect.serverInfo = Self.serverInfo
                }), .send(.with { $0.update.participants = [participant, inferenceServer] }),
            .send(.with { $0.roomUpdate.room = roomMessage }), .send(.with { $0.refreshToken = token }),
        ]
        // Answers to the offers of the lost connection would be taken for answers to later ones.
        offerIDs = []
        guard !stay.join.isSingle else { return greeting + offerIfDue() }
        offered = due
        isStable = false
        return greeting + [.media(.restartICE(offered))]
    }

    /// Refuses to resume a participant that believes to have published other tracks.
    private mutating func received(_ state: LiveKitSyncState) -> [Action] {
        let known = publishedTracks.values.map(\.sid)
        guard state.publishTracks.allSatisfy({ known.contains($0.track.sid) }) else {
            return leave(.reconnect, reason: .stateMismatch)
        }
        return received(state.subscription)
    }

    private var roomMessage: LiveKitRoom {
        .with { room in
            (room.sid, room.name) = (stay.room.sid, stay.room.name)
            room.numParticipants = extra?.server == nil ? 2 : 3
        }
    }

    private var participant: LiveKitParticipantInfo {
        var info = LiveKitParticipantInfo()
        info.sid = stay.room.participantSID
        info.identity = stay.room.participant
        info.state = state
        info.version = participantVersion
        // Without it, LiveKit's client for browsers does not publish.
        info.permission = .with {
            ($0.canSubscribe, $0.canPublish, $0.canPublishData) = (true, !stay.join.isViewer, !stay.join.isViewer)
        }
        info.tracks = publishedTracks.values.sorted { $0.sid < $1.sid }
        info.isPublisher = !publishedTracks.isEmpty
        return info
    }

    private var inferenceServer: LiveKitParticipantInfo {
        var info = LiveKitParticipantInfo()
        info.sid = stay.room.inferenceSID
        info.identity = stay.room.inferenceServer
        info.state = .active
        info.kind = .agent
        info.version = announcementCount
        info.tracks = MediaKind.allCases.filter(announced.contains).map(track)
        if let extra, extra.server == nil { info.tracks.append(Self.message(of: extra.track)) }
        info.isPublisher = !announced.isEmpty
        return info
    }

    private func track(_ kind: MediaKind) -> LiveKitTrackInfo {
        var track = LiveKitTrackInfo()
        track.sid = sid(kind)
        track.type = kind == .video ? .video : .audio
        track.source = kind == .video ? .camera : .microphone
        track.name = kind == .video ? "transformed" : "sound"
        if kind == .video {
            track.packetTrailerFeatures = trailerFeatures
            track.muted = isOutputMuted
        } else {
            track.disableRED = !isAudioRedundant
        }
        return track
    }

    /// The audio comes back as the participant publishes it.
    private var isAudioRedundant: Bool { !publishedTracks.values.contains { $0.type == .audio && $0.disableRED } }

    private static func message(of extra: OutputTrack) -> LiveKitTrackInfo {
        .with {
            ($0.sid, $0.type, $0.source, $0.name) = (extra.sid, .video, .camera, "another")
            ($0.width, $0.height) = (320, 240)
        }
    }

    /// Trailers of the frames that the participant gets: those of its own frames, or of the session that it watches.
    private var trailerFeatures: [LiveKitPacketTrailerFeature] {
        guard stay.join.takesTrailers else { return [] }
        return stay.join.isViewer
            ? stay.watchedTrailers : publishedTracks.values.first { $0.type == .video }?.packetTrailerFeatures ?? []
    }

    private func sid(_ kind: MediaKind) -> String { kind == .video ? videoSID : audioSID }

    /// The inference server's tracks that the participant subscribes to.
    private var due: [OutputTrack] {
        MediaKind.allCases.filter { announced.contains($0) && wanted.contains($0) }.map { kind in
            OutputTrack(
                kind, sid: sid(kind), publication: publications[kind] ?? 1,
                isRedundant: kind == .video || isAudioRedundant)
        } + (wantsExtra ? extra.map { [$0.track] } ?? [] : [])
    }

    // MARK: Signal requests

    /// - Parameter now: Milliseconds since 1970.
    package mutating func received(_ request: LiveKitSignalRequest, now: Int64) -> [Action] {
        guard !isOver else { return [] }
        switch request.message {
        case .offer(let description):
            guard offerIDs.count < Self.maximumOpenOfferCount else { return leave(.disconnect, reason: .stateMismatch) }
            offerIDs.append(description.id)
            return [.media(.receiveOffer(description.sdp, codecs))]
        case .answer(let description):
            // After two resumes in a row, an answer to the offer of the first one may arrive; older clients send no id.
            guard [0, lastOfferID].contains(description.id) else { return [] }
            isStable = true
            return [.media(.receiveAnswer(description.sdp))] + offerIfDue()
        case .trickle(let trickle): return received(trickle)
        case .addTrack(let request): return received(request)
        case .subscription(let update): return received(update)
        case .leave:
            isOver = true
            return [.close]
        case .ping: return [.send(.with { $0.pong = now })]
        case .pingReq(let ping):
            let pong = LiveKitPong.with { ($0.lastPingTimestamp, $0.timestamp) = (ping.timestamp, now) }
            return [.send(.with { $0.pongResp = pong })]
        case .mute(let mute):
            guard let cid = publishedTracks.first(where: { $0.value.sid == mute.sid })?.key else { return [] }
            publishedTracks[cid]?.muted = mute.muted
            return changed()
        case .syncState(let state): return received(state)
        case nil: return []
        }
    }

    private mutating func ownerChanged() -> Action {
        participantVersion &+= 1
        return .ownerChanged(participant)
    }

    /// Viewers see the participant's change, and so does itself, once its tracks are published.
    private mutating func changed() -> [Action] {
        let change = ownerChanged()
        return reportedTracks.isEmpty ? [change] : [change, ownUpdate]
    }

    private var ownUpdate: Action { .send(.with { $0.update.participants = [participant] }) }

    /// The service mutes or unmutes the participant's video.
    package mutating func muteVideo(_ isMuted: Bool) -> [Action] {
        guard !isOver, let cid = publishedTracks.first(where: { $0.value.type == .video })?.key,
            let sid = publishedTracks[cid]?.sid
        else { return [] }
        publishedTracks[cid]?.muted = isMuted
        return [.send(.with { $0.mute = .with { ($0.sid, $0.muted) = (sid, isMuted) } })] + changed()
    }

    /// A viewer sees the participant whose video is transformed.
    func ownerChanged(to owner: LiveKitParticipantInfo) -> [Action] {
        isOver ? [] : [.send(.with { $0.update.participants = [owner] })]
    }

    private func received(_ trickle: LiveKitTrickleRequest) -> [Action] {
        let side: RoomSide = trickle.target == .subscriber ? .subscriber : .publisher
        guard let candidate = try? CandidateMessage(decodingInit: Array(trickle.candidateInit.utf8)) else { return [] }
        return [.media(.addCandidate(candidate.candidate.isEmpty ? nil : candidate, side))]
    }

    private mutating func received(_ request: LiveKitAddTrackRequest) -> [Action] {
        let isKnown = publishedTracks[request.cid] != nil
        guard request.type != .data, !stay.join.isViewer, isKnown || publishedTracks.count < Self.maximumTrackCount
        else {
            let reason = stay.join.isViewer ? "viewers publish nothing" : "this track is not taken"
            let refusal = LiveKitRequestResponse.with {
                ($0.reason, $0.message, $0.addTrack) = (.notAllowed, reason, request)
            }
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
        track.disableRED = request.disableRED
        track.stream = request.stream
        track.layers.sort { $0.quality.varint < $1.quality.varint }
        track.codecs = codecs(of: request, track)
        track.simulcast = track.layers.count > 1
        if stay.options.carriesTrailers {
            let alone = stay.options.trailersHaveTimeAlone
            for feature in request.packetTrailerFeatures.prefix(8)
            where !track.packetTrailerFeatures.contains(feature) && (!alone || feature == .ptfUserTimestamp) {
                track.packetTrailerFeatures.append(feature)
            }
        }
        publishedTracks[request.cid] = track
        let published = LiveKitTrackPublishedResponse.with { ($0.cid, $0.track) = (request.cid, track) }
        return [.send(.with { $0.trackPublished = published }), ownerChanged()]
    }

    /// The codecs in which the participant is to publish: the announced ones if the room allows the first, else the room's.
    private func codecs(of request: LiveKitAddTrackRequest, _ track: LiveKitTrackInfo) -> [LiveKitSimulcastCodecInfo] {
        func named(_ codec: LiveKitSimulcastCodec) -> String {
            codec.codec.lowercased().split(separator: "/").last.map(String.init) ?? ""
        }
        var announced = Array(request.simulcastCodecs.prefix(2))
        if request.type == .video {
            let allowed = allowedVideo
            announced.removeAll { !named($0).isEmpty && !allowed.contains(named($0)) }
            if announced.isEmpty, !request.simulcastCodecs.isEmpty || stay.options.allowedCodecs != nil {
                announced = [.with { $0.codec = allowed.first ?? "" }]
            }
        }
        if announced.isEmpty { announced = [LiveKitSimulcastCodec()] }
        let kind = request.type == .video ? "video" : "audio"
        return announced.map { codec in
            .with {
                $0.mimeType = named(codec).isEmpty ? "" : "\(kind)/\(named(codec))"
                ($0.cid, $0.layers) = (codec.cid.isEmpty ? request.cid : codec.cid, track.layers)
            }
        }
    }

    private mutating func received(_ update: LiveKitUpdateSubscription) -> [Action] {
        let sids = update.trackSids + update.participantTracks.flatMap(\.trackSids)
        let kinds = MediaKind.allCases.filter { sids.contains(sid($0)) }
        if update.subscribe { wanted.formUnion(kinds) } else { wanted.subtract(kinds) }
        if let extra, sids.contains(extra.track.sid) { wantsExtra = update.subscribe }
        return offerIfDue()
    }

    /// What the room knows about the tracks of an offer.
    private var codecs: PublishedCodecs {
        var codecs = PublishedCodecs()
        codecs.allowed = stay.options.allowedNames
        for (cid, track) in publishedTracks {
            if let name = track.codecs.first?.mimeType.split(separator: "/").last.map(String.init) {
                codecs.announced[cid] = name
            }
            let layers = track.layers.sorted { $0.width > $1.width }.map(\.rid)
            if !layers.contains("") { codecs.layers[cid] = layers }
            if track.disableRED { codecs.withoutRedundancy.insert(cid) }
        }
        return codecs
    }

    // MARK: Media events

    package mutating func mediaAnswered(_ sdp: String, _ lines: RoomLines) -> [Action] {
        guard !isOver, !offerIDs.isEmpty else { return [] }
        var answer = LiveKitSessionDescription()
        answer.type = "answer"
        answer.sdp = sdp
        answer.id = offerIDs.removeFirst()
        for (kind, mid) in lines.sendMids where lines.sending.contains(kind) { answer.midToTrackID[mid] = sid(kind) }
        sendMids = Set(lines.sendMids.keys)
        if stay.join.isSingle { isStable = true }
        let receiving = lines.receiving
        publishedLines = lines.published
        let actions =
            [Action.send(.with { $0.answer = answer })] + unpublished(self.receiving.subtracting(receiving))
            + reportPublished()
        self.receiving = receiving
        guard !stay.join.isViewer else { return actions + offerIfDue() }
        var tracks = receiving
        if announced.contains(.video) { tracks.insert(.video) }
        if isWithdrawn { tracks.remove(.video) }
        return actions + (tracks == announced ? offerIfDue() : announce(tracks))
    }

    private mutating func announce(_ tracks: Set<MediaKind>) -> [Action] {
        for kind in tracks.subtracting(announced) {
            publications[kind, default: 0] += 1
            // Each publication has its own SID; that of the video is for the fault to choose.
            if kind == .audio { audioSID = RoomIdentity.sid("TR") }
        }
        // A participant without auto-subscribe has to subscribe again.
        if !stay.join.autoSubscribe { wanted.subtract(announced.subtracting(tracks)) }
        announced = tracks
        announcementCount &+= 1
        // Announce a track before the offer that carries it.
        return [.send(.with { $0.update.participants = [inferenceServer] })] + offerIfDue()
    }

    /// The audio of the session that a viewer watches has come or gone.
    mutating func audioChanged(_ isThere: Bool) -> [Action] {
        guard !isOver, stay.join.isViewer, announced.contains(.audio) != isThere else { return [] }
        return announce(isThere ? announced.union([.audio]) : announced.subtracting([.audio]))
    }

    package mutating func withdrawOutput() -> [Action] {
        guard !isOver, !isWithdrawn else { return [] }
        isWithdrawn = true
        guard announced.contains(.video) else { return [] }
        return announce(announced.subtracting([.video]))
    }

    package mutating func restartOutput(_ output: Fault.Output) -> [Action] {
        guard !isOver, isWithdrawn else { return [] }
        isWithdrawn = false
        if output == .newSID { videoSID = RoomIdentity.sid("TR") }
        // With a single connection, the participant chooses the m-line.
        let move: [Action] = output == .newMID && !stay.join.isSingle ? [.media(.moveVideo)] : []
        return move + (stay.join.isViewer || receiving.contains(.video) ? announce(announced.union([.video])) : [])
    }

    /// Removes tracks that the participant has stopped sending; it has to announce them again to publish them again.
    private mutating func unpublished(_ kinds: Set<MediaKind>) -> [Action] {
        let types = kinds.map { kind -> LiveKitTrackType in kind == .video ? .video : .audio }
        let gone = publishedTracks.filter { types.contains($0.value.type) }
        guard !gone.isEmpty else { return [] }
        for (cid, track) in gone {
            publishedTracks[cid] = nil
            reportedTracks.remove(track.sid)
        }
        return [ownerChanged(), ownUpdate]
    }

    package mutating func mediaOffered(_ sdp: String, _ mids: [String: String]) -> [Action] {
        guard !isOver else { return [] }
        lastOfferID &+= 1
        let offer = LiveKitSessionDescription.with {
            ($0.type, $0.sdp, $0.id, $0.midToTrackID) = ("offer", sdp, lastOfferID, mids)
        }
        return [.send(.with { $0.offer = offer })]
    }

    /// Makes an offer if the tracks have changed; one offer at a time.
    private mutating func offerIfDue() -> [Action] {
        let due = due
        guard isStable, isSignalling, due != offered else { return [] }
        let permissions = due.filter { !offered.contains($0) }.map { track in
            Action.send(
                .with {
                    $0.subscriptionPermissionUpdate = .with {
                        ($0.participantSid, $0.trackSid) = (track.participantSID ?? stay.room.inferenceSID, track.sid)
                        $0.allowed = true
                    }
                })
        }
        offered = due
        guard stay.join.isSingle else {
            isStable = false
            return permissions + [.media(.offer(due))]
        }
        // The participant offers even if it has enough m-lines; our answer then carries the tracks.
        let needed = Set(due.map(\.kind)).subtracting(sendMids)
        let requirement = LiveKitMediaSectionsRequirement.with {
            ($0.numVideos, $0.numAudios) = (needed.contains(.video) ? 1 : 0, needed.contains(.audio) ? 1 : 0)
        }
        return permissions + [.media(.offer(due)), .send(.with { $0.mediaSectionsRequirement = requirement })]
    }

    /// The participant's answer has come: it cannot receive a track without its codec.
    package mutating func mediaBound(_ bindings: [TrackBinding]) -> [Action] {
        let refused = bindings.filter { $0.payloadType == nil }.map(\.track)
        guard !isOver, !refused.isEmpty else { return [] }
        wanted.subtract(refused.filter { !$0.isExtra }.map(\.kind))
        if refused.contains(where: \.isExtra) { wantsExtra = false }
        let responses = refused.map { track in
            Action.send(
                .with {
                    $0.subscriptionResponse = .with {
                        ($0.trackSid, $0.err) = (track.sid, .seCodecUnsupported)
                    }
                })
        }
        return responses + offerIfDue()
    }

    /// The first frame of a track is sent. LiveKit's servers report it to participants with two connections only.
    package func mediaStarted(_ track: OutputTrack) -> [Action] {
        stay.join.isSingle ? [] : streamState(.active, track.sid, of: track.participantSID)
    }

    // MARK: Faults of the output

    package func pauseOutput(_ isPaused: Bool) -> [Action] { streamState(isPaused ? .paused : .active, videoSID) }

    package mutating func muteOutput(_ isMuted: Bool) -> [Action] {
        guard !isOver else { return [] }
        isOutputMuted = isMuted
        announcementCount &+= 1
        return [.send(.with { $0.update.participants = [inferenceServer] })]
            + (isMuted || stay.join.isSingle ? [] : streamState(.active, videoSID))
    }

    /// Another video track appears, of the inference server or of a second one.
    package mutating func addExtra(bySecondServer: Bool) -> [Action] {
        guard !isOver, extra == nil else { return [] }
        let sid = RoomIdentity.sid("PA")
        let track = OutputTrack(
            .video, sid: RoomIdentity.sid("TR"), isExtra: true, participantSID: bySecondServer ? sid : nil)
        let server = LiveKitParticipantInfo.with {
            ($0.sid, $0.identity) = (sid, stay.room.inferenceServer + "-2")
            ($0.state, $0.kind, $0.isPublisher, $0.version) = (.active, .agent, true, 1)
            $0.tracks = [Self.message(of: track)]
        }
        extra = (track, bySecondServer ? server : nil)
        wantsExtra = stay.join.autoSubscribe
        announcementCount &+= 1
        return [.send(.with { $0.update.participants = [bySecondServer ? server : inferenceServer] })] + offerIfDue()
    }

    package mutating func removeExtra() -> [Action] {
        guard !isOver, let former = extra else { return [] }
        (extra, wantsExtra) = (nil, false)
        announcementCount &+= 1
        var gone = former.server ?? inferenceServer
        if former.server != nil {
            gone.tracks = []
            gone.state = .disconnected
        }
        return [.send(.with { $0.update.participants = [gone] })] + offerIfDue()
    }

    private func streamState(
        _ state: LiveKitStreamState, _ sid: String, of participantSID: String? = nil
    ) -> [Action] {
        guard !isOver else { return [] }
        let info = LiveKitStreamStateInfo.with {
            ($0.participantSid, $0.trackSid, $0.state) = (participantSID ?? stay.room.inferenceSID, sid, state)
        }
        return [.send(.with { $0.streamStateUpdate.streamStates = [info] })]
    }

    mutating func mediaFound(_ candidate: CandidateMessage?, _ side: RoomSide) -> [Action] {
        guard !isOver else { return [] }
        let ready = heldCandidates[side]
        heldCandidates[side] = candidate
        guard let text = try? ready?.encodedInit() else { return [] }
        let trickle = LiveKitTrickleRequest.with {
            $0.candidateInit = String(decoding: text, as: UTF8.self)
            ($0.target, $0.final) = (side == .subscriber ? .subscriber : .publisher, candidate == nil)
        }
        return [.send(.with { $0.trickle = trickle })]
    }

    package mutating func mediaConnected(_ side: RoomSide) -> [Action] {
        hasBeenConnected = true
        guard !isOver else { return [] }
        let becomesActive = state == .joined && side == (stay.join.isSingle ? .publisher : .subscriber)
        if becomesActive { state = .active }
        let knowsItself = becomesActive && !reportedTracks.isEmpty
        if side == .publisher { isPublisherConnected = true }
        return (knowsItself ? changed() : []) + reportPublished()
    }

    /// The publisher connection is up: the participant sees itself with its tracks, and that the inference server subscribes
    /// to them.
    private mutating func reportPublished() -> [Action] {
        guard !isOver, isPublisherConnected else { return [] }
        let new = publishedTracks.filter { publishedLines[$0.key] != nil && !reportedTracks.contains($0.value.sid) }
        guard !new.isEmpty else { return [] }
        for (cid, track) in new {
            guard let line = publishedLines[cid] else { continue }
            reportedTracks.insert(track.sid)
            let mime = "\(track.type == .video ? "video" : "audio")/\(line.codec)"
            publishedTracks[cid]?.mimeType = mime
            publishedTracks[cid]?.mid = line.mid
            publishedTracks[cid]?.codecs[0].mimeType = mime
            publishedTracks[cid]?.codecs[0].mid = line.mid
        }
        let tracks = new.values.sorted { $0.sid < $1.sid }
        return changed()
            + tracks.flatMap { track in
                let subscribed = Action.send(.with { $0.trackSubscribed.trackSid = track.sid })
                return track.type == .video ? [subscribedQualities(track), subscribed] : [subscribed]
            }
    }

    /// The subscriber receives the best of the announced layers.
    private func subscribedQualities(_ track: LiveKitTrackInfo) -> Action {
        let best = track.layers.map(\.quality.varint).max() ?? LiveKitVideoQuality.high.varint
        let all = [LiveKitVideoQuality.low, .medium, .high].map { quality in
            LiveKitSubscribedQuality.with { ($0.quality, $0.enabled) = (quality, quality.varint <= best) }
        }
        let codec = publishedTracks.values.first { $0.sid == track.sid }?.mimeType.split(separator: "/").last ?? ""
        return .send(
            .with {
                $0.subscribedQualityUpdate = .with {
                    ($0.trackSid, $0.subscribedQualities) = (track.sid, all)
                    $0.subscribedCodecs = [.with { ($0.codec, $0.qualities) = (codec.lowercased(), all) }]
                }
            })
    }

    /// The quality of the connections and the count of participants, as LiveKit's servers send them after 5 s.
    package func report() -> [Action] {
        guard !isOver else { return [] }
        let qualities = [stay.room.participantSID, stay.room.inferenceSID].map { sid in
            LiveKitConnectionQualityInfo.with { ($0.participantSid, $0.quality) = (sid, .excellent) }
        }
        return [
            .send(.with { $0.roomUpdate.room = roomMessage }),
            .send(.with { $0.connectionQuality.updates = qualities }),
        ]
    }

    // MARK: Leaving

    mutating func mediaFailed() -> [Action] { leave(.reconnect, reason: .connectionTimeout) }

    /// Ends the stay; with action RESUME only the signalling connection.
    package mutating func leave(
        _ action: LiveKitLeaveRequest.Action, reason: LiveKitDisconnectReason, regions: [LiveKitRegionInfo] = []
    ) -> [Action] {
        guard !isOver else { return [] }
        isOver = action != .resume
        var leave = LiveKitLeaveRequest()
        leave.action = action
        leave.canReconnect = action != .disconnect
        leave.reason = reason
        leave.regions.regions = regions
        let end: [Action] = isSignalling || isOver ? [.close] : []
        return [.send(.with { $0.leave = leave })] + end + (isOver ? [] : [.awaitResume])
    }
}
