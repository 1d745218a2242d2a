// The signalling of one stay in a LiveKit room, from joining to leaving, as a value: events (`RoomEvent`) in, actions
// (`RoomAction`) out. No I/O, clock or lock; timers are data. `RoomConnection` performs the actions.
//
//   opening ─opened→ joining ─join→ publishing ─peers connected→ connected
//
// There are one or two peer connections; `PeerConnectionMode` holds the differences. Only one offer of ours is in
// flight at a time. Nothing is resumed: any loss ends the stay, and the session may join a room again.
package import DecartProtocol
package import DecartSession
package import LiveKitProtocol
import SwiftProtobuf
package import WebRTCTransport

/// Media to publish, and participants to subscribe to.
package struct RoomConfiguration: Sendable, Equatable {
    /// Client IDs (`cid`) of our tracks, as in the offer's `msid`.
    package var trackID = "camera"
    package var audioTrackID = "microphone"
    /// Name of the video track, visible to other participants.
    package var trackName = "camera"
    /// True if the frames show a screen, not a camera.
    package var isScreen = false
    package var width: Int
    package var height: Int
    /// Maximum, bit/s.
    package var bitrate: Int
    /// Codec name as LiveKit spells it: `h264`.
    package var codec: String
    /// Simulcast layers, highest resolution first, each with its maximum bitrate; empty: one stream.
    package var layers: [Layer] = []
    /// False for a viewer, which announces no track and has no publisher connection.
    package var publishes = true
    /// We subscribe only to participants whose identity begins with this prefix.
    package var sourcePrefix = "inference-server-"

    package struct Layer: Sendable, Equatable {
        package var rid: String
        package var width: Int
        package var height: Int
        /// Maximum, bit/s.
        package var bitrate: Int

        package init(rid: String, width: Int, height: Int, bitrate: Int) {
            (self.rid, self.width, self.height, self.bitrate) = (rid, width, height, bitrate)
        }
    }

    package init(width: Int, height: Int, bitrate: Int, codec: String) {
        self.width = width
        self.height = height
        self.bitrate = bitrate
        self.codec = codec
    }
}

package enum RoomTimer: Sendable, Hashable {
    case ping
    /// Limits the silence after a ping.
    case pong
    /// Limits the wait for the answer to a later offer.
    case answer
}

package enum RoomEvent: Sendable, Equatable {
    /// Starts joining the room.
    case open
    case opened
    case message(LiveKitSignalResponse)
    case closed(code: Int?, reason: String)
    case failed(SessionError)
    /// Offer of the publisher connection.
    case offerMade(sdp: String)
    /// Answer of the subscriber connection.
    case answerMade(sdp: String, offer: UInt32)
    /// nil marks the end of candidates.
    case candidateFound(CandidateMessage?, LiveKitSignalTarget)
    case peerConnected(LiveKitSignalTarget)
    case peerFailed(SessionError, LiveKitSignalTarget)
    case timerFired(RoomTimer)
    case desired(DesiredMedia)
    case stop
}

package enum RoomAction: Sendable, Equatable {
    case send(LiveKitSignalRequest.OneOf_Message)
    case close
    /// Opens the signalling connection. The request is nil for two peer connections; for a single one it holds our
    /// offer.
    case connect(LiveKitJoinRequest?)
    /// Creates the single peer connection, to make an offer before joining; it gathers no candidates yet.
    case makePeer
    /// Gathers candidates on the single connection, with the room's ICE servers.
    case gather([LiveKitICEServer], relayOnly: Bool)
    /// Closes the single connection, which the server does not support.
    case dropPeer
    /// Creates the subscriber and, except for a viewer, the publisher. `RoomConnection` skips the room's ICE servers
    /// that it cannot use.
    case makePeers([LiveKitICEServer], relayOnly: Bool)
    /// Adds this many m-lines for receiving to all further offers.
    case addReceiveSections([MediaKind: Int])
    /// Makes the publisher's offer, with these media to send and no others.
    case makeOffer(Set<MediaKind>)
    /// Rolls back the latest offer, which was not answered.
    case rollbackOffer
    case applyAnswer(sdp: String)
    case makeAnswer(offer: String, id: UInt32)
    case applyCandidate(CandidateMessage?, LiveKitSignalTarget)
    case schedule(RoomTimer, after: Duration)
    case cancel(RoomTimer)
    /// The room's ID of our video track became known after the answer.
    case reportPublished
    /// All peer connections that we need are connected.
    case reportConnected
    case reportFailed(SessionError)
    case note(String)
}

package struct RoomMachine: Sendable {
    private enum Phase: Sendable, Equatable {
        case opening, joining, publishing, connected, ended
    }

    private let configuration: RoomConfiguration
    package private(set) var mode: PeerConnectionMode
    private var phase = Phase.opening
    /// The latest token, for joining again.
    package private(set) var token: Secret
    private var needsSubscriber = true
    private var connected: Set<Int> = []
    /// State of one of our tracks on the server.
    private enum Publication: Equatable {
        case requested
        /// The server knows the track under this ID; empty until the server has sent the ID.
        case known(sid: String)
    }
    /// The room's ID of our video track, while it is published.
    package var trackSID: String? {
        guard case .known(let sid) = publications[.video], !sid.isEmpty else { return nil }
        return sid.printable(limit: 64)
    }
    private var desired = DesiredMedia()
    private var publications: [MediaKind: Publication] = [:]
    /// Rejected by the server; not requested again in this room.
    private var rejected: Set<MediaKind> = []
    private var lostPublications = 0
    /// Media in the latest offer; nil: no offer was made.
    private var offered: Set<MediaKind>?
    private var isOffering = false
    private var offerCount: UInt32 = 0
    /// The server requests an offer, because it has more media to send.
    private var needsOffer = false
    private var pingInterval: Duration?
    private var pingTimeout: Duration = .seconds(15)
    private var lastPing: Duration?
    private var awaitsPong = false
    private var roundTrip: Duration = .zero
    private var subscriptions: RoomSubscriptions
    private var actions: [RoomAction] = []

    private static let renegotiationTimeout: Duration = .seconds(10)

    /// - Parameter mode: the version to try first. A viewer always uses `dual`, with a subscriber only.
    package init(configuration: RoomConfiguration, token: Secret, mode: PeerConnectionMode = .dual) {
        self.configuration = configuration
        self.token = token
        self.mode = configuration.publishes ? mode : .dual
        subscriptions = RoomSubscriptions(sourcePrefix: configuration.sourcePrefix)
    }

    /// - Parameter now: monotonic time since an arbitrary origin.
    package mutating func handle(_ event: RoomEvent, now: Duration) -> [RoomAction] {
        if phase != .ended { process(event, now) }
        defer { actions = [] }
        return actions
    }

    private mutating func process(_ event: RoomEvent, _ now: Duration) {
        switch event {
        case .open:
            begin()
        case .opened:
            if phase == .opening { phase = .joining }
        case .message(let response):
            // Any message shows that the server is alive.
            if awaitsPong { emit(.cancel(.pong)) }
            awaitsPong = false
            guard let message = response.message else { return }
            received(message, now)
        case .closed(let code, let reason):
            let words = [code.map(String.init), reason.isEmpty ? nil : reason.printable(limit: 123)].compactMap(\.self)
            fail(
                "The room closed its signalling connection"
                    + (words.isEmpty ? "." : " (\(words.joined(separator: ": ")))."))
        case .failed(let error):
            if phase == .opening, mode == .single, error.httpStatus == 404 { return fallBack() }
            fail(error)
        case .offerMade(let sdp):
            offerCount &+= 1
            let offer = description("offer", sdp, id: offerCount)
            emit(phase == .opening ? .connect(joinRequest(offer)) : .send(.offer(offer)))
        case .answerMade(let sdp, let id):
            emit(.send(.answer(description("answer", sdp, id: id))))
        case .candidateFound(let candidate, let target):
            if let message = CandidateText.write(candidate, target) { emit(.send(.trickle(message))) }
        case .peerConnected(let target):
            connected.insert(target.rawValue)
            checkConnected()
        case .peerFailed(let error, _):
            fail(error)
        case .timerFired(.ping):
            ping(now)
        case .timerFired(.pong):
            fail("The room did not answer a ping; the signalling connection is lost.")
        case .timerFired(.answer):
            isOffering = false
            emit(.rollbackOffer)
            emit(.note("The room did not answer an offer that changes the published tracks"))
            offerIfDue()
        case .desired(let desired):
            guard desired != self.desired else { return }
            let hadAudio = self.desired.audio
            self.desired = desired
            if hadAudio != desired.audio { apply(subscriptions.setAudio(desired.audio)) }
            publish()
            checkConnected()
        case .stop:
            if phase != .opening { emit(.send(.leave(leaveRequest))) }
            end()
        }
    }

    // MARK: Joining

    private mutating func begin() {
        guard mode == .single else { return emit(.connect(nil)) }
        let wanted = Set(MediaKind.allCases.filter { desired[$0] })
        for kind in wanted { publications[kind] = .known(sid: "") }
        (offered, isOffering) = (wanted, true)
        emit(.makePeer)
        emit(.makeOffer(wanted))
    }

    /// Announces the tracks that the first offer holds, together with the offer.
    private func joinRequest(_ offer: LiveKitSessionDescription) -> LiveKitJoinRequest {
        .with {
            $0.publisherOffer = offer
            if offered?.contains(.audio) ?? false { $0.addTrackRequests.append(audioTrack) }
            if offered?.contains(.video) ?? false { $0.addTrackRequests.append(videoTrack) }
        }
    }

    /// Uses two connections, because the server does not support a single one.
    private mutating func fallBack() {
        mode = .dual
        publications = [:]
        (offered, isOffering, offerCount) = (nil, false, 0)
        emit(.dropPeer)
        begin()
    }

    // MARK: Server messages

    private mutating func received(_ message: LiveKitSignalResponse.OneOf_Message, _ now: Duration) {
        switch message {
        case .join(let join):
            joined(join)
        case .trackPublished(let published):
            guard let kind = MediaKind.allCases.first(where: { trackID($0) == published.cid }),
                [.requested, .known(sid: "")].contains(publications[kind])
            else { return }
            let isOffered = publications[kind] != .requested
            publications[kind] = .known(sid: published.track.sid)
            if isOffered, !isOffering { emit(.reportPublished) }
            offerIfDue()
        case .trackUnpublished(let unpublished):
            lost(unpublished.trackSid)
        case .requestResponse(let response):
            guard response.reason != .ok, response.reason != .queued else { return }
            let words = response.message.isEmpty ? "\(response.reason)" : response.message.printable(limit: 200)
            if case .addTrack(let request) = response.request, request.cid == configuration.trackID, desired.video {
                fail("The room rejected the video track: \(words).")
            } else if case .addTrack(let request) = response.request, request.cid == configuration.audioTrackID {
                publications[.audio] = nil
                rejected.insert(.audio)
                emit(.note("The room rejected the audio track: \(words)"))
            } else {
                emit(.note("The room rejected a request: \(words)"))
            }
        case .answer(let answer):
            answered(answer)
        case .offer where mode == .single:
            fail(
                "The room sent an offer on a single connection, where only the client offers. "
                    + "Set single-connection=false.")
        case .offer(let offer):
            guard phase != .joining else { return emit(.note("Ignored: an offer before joining")) }
            emit(.makeAnswer(offer: offer.sdp, id: offer.id))
        case .trickle(let trickle):
            guard phase != .joining else { return }
            if let candidate = CandidateText.read(trickle.candidateInit) {
                emit(.applyCandidate(candidate, mode.side(trickle.target)))
            } else if !trickle.candidateInit.isEmpty {
                emit(.note("Ignored: a candidate that cannot be read"))
            }
            if trickle.final { emit(.applyCandidate(nil, mode.side(trickle.target))) }
        case .update(let update):
            subscribe(to: update.participants)
        case .leave(let leave):
            left(leave)
        case .refreshToken(let fresh):
            if !fresh.isEmpty, fresh.utf8.count <= 8192 { token = Secret(fresh) }
        case .roomMoved(let moved):
            if !moved.token.isEmpty, moved.token.utf8.count <= 8192 { token = Secret(moved.token) }
            subscribe(to: moved.otherParticipants)
        case .pongResp(let pong):
            if let lastPing, milliseconds(lastPing) == pong.lastPingTimestamp { roundTrip = max(now - lastPing, .zero) }
        case .subscriptionResponse(let response):
            switch response.err {
            case .seCodecUnsupported where mode == .single:
                fail(
                    "The room has the result in a codec that needs a second connection. "
                        + "Set single-connection=false, or another codec.")
            case .seCodecUnsupported:
                fail("The room offers the result in no codec that can be decoded here. Install more decoders.")
            default: emit(.note("The room rejected a subscription: \(response.err)"))
            }
        case .streamStateUpdate(let update):
            for stream in update.streamStates where stream.state == .paused {
                emit(.note("The room paused the received video: the network is too slow"))
            }
        case .mute(let mute):
            emit(.note("The room \(mute.muted ? "mutes" : "unmutes") a track"))
        case .mediaSectionsRequirement(let needed):
            guard mode == .single else {
                return emit(.note("Ignored: a message for clients with a single connection"))
            }
            let lines = [MediaKind.video: needed.numVideos, .audio: needed.numAudios].mapValues { Int(min($0, 16)) }
            if lines.contains(where: { $0.value > 0 }) { emit(.addReceiveSections(lines)) }
            needsOffer = true
            offerIfDue()
        case .reconnect, .pong, .roomUpdate, .connectionQuality, .subscribedQualityUpdate, .trackSubscribed:
            break
        }
    }

    private mutating func joined(_ join: LiveKitJoinResponse) {
        guard phase == .joining || phase == .opening else { return emit(.note("Ignored: a second join message")) }
        phase = .publishing
        needsSubscriber = join.subscriberPrimary && mode == .dual
        if join.pingInterval > 0 {
            pingInterval = .seconds(min(max(join.pingInterval, 1), 60))
            pingTimeout = .seconds(min(max(join.pingTimeout, 5), 120))
            schedulePing()
        }
        let (servers, relayOnly) = (Array(join.iceServers.prefix(16)), join.clientConfiguration.forceRelay == .enabled)
        emit(mode == .single ? .gather(servers, relayOnly: relayOnly) : .makePeers(servers, relayOnly: relayOnly))
        publish()
        subscribe(to: join.otherParticipants)
    }

    // MARK: Publishing

    private func trackID(_ kind: MediaKind) -> String {
        kind == .video ? configuration.trackID : configuration.audioTrackID
    }

    /// Announces wanted tracks to the server, and removes unwanted ones from the next offer. Audio comes first: once
    /// the server knows the video track too, one offer holds both.
    private mutating func publish() {
        guard configuration.publishes, phase == .publishing || phase == .connected else { return }
        for kind in [MediaKind.audio, .video] {
            guard desired[kind] else {
                publications[kind] = nil
                continue
            }
            guard publications[kind] == nil, !rejected.contains(kind) else { continue }
            publications[kind] = .requested
            emit(.send(.addTrack(kind == .video ? videoTrack : audioTrack)))
        }
        offerIfDue()
    }

    private mutating func answered(_ answer: LiveKitSessionDescription) {
        guard isOffering, mode == .dual || answer.id == 0 || answer.id == offerCount, phase != .joining else {
            return emit(.note("Ignored: an answer without an offer"))
        }
        isOffering = false
        subscriptions.note(answer.midToTrackID)
        emit(.cancel(.answer))
        emit(.applyAnswer(sdp: answer.sdp))
        offerIfDue()
    }

    private mutating func offerIfDue() {
        let known = Set(publications.filter { $0.value != .requested }.keys)
        // The first offer waits for the video track if video is wanted. An empty first offer is never made.
        guard phase == .publishing || phase == .connected, !isOffering, needsOffer || known != offered ?? [],
            offered != nil || !desired.video || known.contains(.video)
        else { return }
        // The session's own timeout for connecting media covers the answer to the first offer.
        if phase == .connected || offered != nil { emit(.schedule(.answer, after: Self.renegotiationTimeout)) }
        (isOffering, needsOffer) = (true, false)
        offered = known
        emit(.makeOffer(known))
    }

    /// The server has removed a track: publishes it again, a limited number of times.
    private mutating func lost(_ sid: String) {
        guard let kind = publications.first(where: { $0.value == .known(sid: sid) })?.key, lostPublications < 8 else {
            return
        }
        lostPublications += 1
        publications[kind] = nil
        offered?.remove(kind)
        publish()
    }

    private var audioTrack: LiveKitAddTrackRequest {
        .with {
            $0.cid = configuration.audioTrackID
            $0.name = "microphone"
            $0.type = .audio
            $0.source = .microphone
        }
    }

    private var videoTrack: LiveKitAddTrackRequest {
        let layers = videoLayers
        return .with {
            $0.cid = configuration.trackID
            $0.name = configuration.trackName
            $0.type = .video
            $0.source = configuration.isScreen ? .screenShare : .camera
            $0.width = UInt32(clamping: configuration.width)
            $0.height = UInt32(clamping: configuration.height)
            $0.layers = layers
            $0.simulcastCodecs = [
                .with {
                    $0.codec = configuration.codec
                    $0.cid = configuration.trackID
                    $0.layers = layers
                }
            ]
        }
    }

    /// Lowest layer first, as servers expect; a single layer has high quality.
    private var videoLayers: [LiveKitVideoLayer] {
        let single = RoomConfiguration.Layer(
            rid: "", width: configuration.width, height: configuration.height, bitrate: configuration.bitrate)
        let qualities: [LiveKitVideoQuality] = [.high, .medium, .low]
        let layers = configuration.layers.isEmpty ? [single] : configuration.layers
        // Two layers have the qualities medium and low, according to their rids h and q.
        let best = configuration.layers.count == 2 ? 1 : 0
        return zip(layers, qualities.dropFirst(best)).reversed().map { layer, quality in
            .with {
                $0.quality = quality
                $0.rid = layer.rid
                $0.width = UInt32(clamping: layer.width)
                $0.height = UInt32(clamping: layer.height)
                $0.bitrate = UInt32(clamping: layer.bitrate)
            }
        }
    }

    // MARK: Subscribing

    private mutating func subscribe(to participants: [LiveKitParticipantInfo]) {
        apply(subscriptions.update(participants, withAudio: desired.audio))
    }

    private mutating func apply(_ changes: [RoomSubscriptions.Change]) {
        for change in changes {
            switch change {
            case .subscribe(let update):
                emit(.send(.subscription(update)))
            // Only a viewer ends here, because a room with viewers may stay open indefinitely. The service
            // informs a publisher.
            case .left(leavesNothing: true) where !configuration.publishes:
                return fail("The session has ended: its video track left the room.")
            case .left:
                emit(.note("The inference server left the room"))
            }
        }
    }

    /// True if we subscribed to the track, which its m-line in an answer or its `msid` (`stream track`) identifies: no
    /// other participant's video is ever shown.
    package func isWanted(mid: String? = nil, msid: String?) -> Bool { subscriptions.isWanted(mid: mid, msid: msid) }

    private mutating func checkConnected() {
        let receives = needsSubscriber || !configuration.publishes
        let sends = configuration.publishes && (desired.video || !receives)
        guard phase == .publishing, !sends || connected.contains(LiveKitSignalTarget.publisher.rawValue),
            !receives || connected.contains(LiveKitSignalTarget.subscriber.rawValue)
        else { return }
        phase = .connected
        emit(.reportConnected)
    }

    // MARK: Liveness

    private mutating func ping(_ now: Duration) {
        guard pingInterval != nil else { return }
        lastPing = now
        emit(
            .send(
                .pingReq(
                    .with {
                        $0.timestamp = milliseconds(now)
                        $0.rtt = milliseconds(roundTrip)
                    })))
        // The timeout counts from the first ping without a reply.
        if !awaitsPong { emit(.schedule(.pong, after: pingTimeout)) }
        awaitsPong = true
        schedulePing()
    }

    private mutating func schedulePing() {
        if let pingInterval { emit(.schedule(.ping, after: pingInterval)) }
    }

    private func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds &* 1000 &+ attoseconds / 1_000_000_000_000_000
    }

    // MARK: Leaving

    /// Every leave request ends the stay. The session decides whether to retry, and requests a new room for it.
    private mutating func left(_ leave: LiveKitLeaveRequest) {
        let action = leave.action == .disconnect && leave.canReconnect ? .reconnect : leave.action
        fail(
            "The room closed the session (\(leave.reason), \(action))"
                + (leave.reason == .duplicateIdentity ? ": another participant joined with the same token." : "."))
    }

    private var leaveRequest: LiveKitLeaveRequest {
        .with {
            $0.action = .disconnect
            $0.reason = .clientInitiated
        }
    }

    private func description(_ type: String, _ sdp: String, id: UInt32) -> LiveKitSessionDescription {
        .with {
            $0.type = type
            $0.sdp = sdp
            $0.id = id
        }
    }

    private mutating func fail(_ words: String) {
        fail(SessionError(.webRTC, words, stage: .media))
    }

    private mutating func fail(_ error: SessionError) {
        if phase != .opening { emit(.send(.leave(leaveRequest))) }
        end()
        emit(.reportFailed(error))
    }

    private mutating func end() {
        phase = .ended
        emit(.cancel(.ping))
        emit(.cancel(.pong))
        emit(.cancel(.answer))
        emit(.close)
    }

    private mutating func emit(_ action: RoomAction) {
        actions.append(action)
    }
}
