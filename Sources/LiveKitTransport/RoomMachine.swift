// The signalling of one stay in a LiveKit room, from joining to leaving, as a value: events (`RoomEvent`) in, actions
// (`RoomAction`) out. No I/O, clock or lock; timers are data. `RoomConnection` performs the actions.
//
//   opening ─opened→ joining ─join→ publishing ─peers connected→ connected
//
// There are one or two peer connections; `PeerConnectionMode` holds the differences. Only one offer of ours is in
// flight at a time. Nothing is resumed: any loss ends the stay, and the session may join a room again.
package import DecartProtocol
import DecartSession
import LiveKitProtocol
import SwiftProtobuf
import WebRTCTransport

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
    private var publisher: RoomPublisher
    private var keepalive = RoomKeepalive()
    private var subscriptions: RoomSubscriptions
    private var actions: [RoomAction] = []

    /// - Parameter mode: the version to try first. A viewer always uses `dual`, with a subscriber only.
    package init(configuration: RoomConfiguration, token: Secret, mode: PeerConnectionMode = .dual) {
        self.configuration = configuration
        self.token = token
        self.mode = configuration.publishes ? mode : .dual
        publisher = RoomPublisher(configuration)
        subscriptions = RoomSubscriptions(sourcePrefix: configuration.sourcePrefix)
    }

    /// The room's ID of our video track, while it is published.
    package var trackSID: String? { publisher.trackSID }

    private var desired: DesiredMedia { publisher.desired }
    private var isInRoom: Bool { phase == .publishing || phase == .connected }

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
            actions += keepalive.messageArrived()
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
            let offer = description("offer", sdp, id: publisher.nextOfferID())
            emit(phase == .opening ? .connect(publisher.joinRequest(offer)) : .send(.offer(offer)))
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
            actions += keepalive.ping(now)
        case .timerFired(.pong):
            fail("The room did not answer a ping; the signalling connection is lost.")
        case .timerFired(.answer):
            publisher.rollBack()
            emit(.rollbackOffer)
            emit(.note("The room did not answer an offer that changes the published tracks"))
            offerIfDue()
        case .desired(let desired):
            guard desired != self.desired else { return }
            let hadAudio = self.desired.audio
            publisher.desired = desired
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
        emit(.makePeer)
        emit(.makeOffer(publisher.offerBeforeJoining()))
    }

    /// Uses two connections, because the server does not support a single one.
    private mutating func fallBack() {
        mode = .dual
        publisher.reset()
        emit(.dropPeer)
        begin()
    }

    // MARK: Server messages

    private mutating func received(_ message: LiveKitSignalResponse.OneOf_Message, _ now: Duration) {
        switch message {
        case .join(let join):
            joined(join)
        case .trackPublished(let published):
            actions += publisher.published(published)
            offerIfDue()
        case .trackUnpublished(let unpublished):
            // The server has removed a track: publish it again.
            if publisher.unpublished(unpublished.trackSid) { publish() }
        case .requestResponse(let response):
            guard response.reason != .ok, response.reason != .queued else { return }
            let words = response.message.isEmpty ? "\(response.reason)" : response.message.printable(limit: 200)
            if case .addTrack(let request) = response.request, request.cid == configuration.trackID, desired.video {
                fail("The room rejected the video track: \(words).")
            } else if case .addTrack(let request) = response.request, request.cid == configuration.audioTrackID {
                publisher.reject(.audio)
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
            keepalive.received(pong, now)
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
            publisher.needsOffer = true
            offerIfDue()
        case .reconnect, .pong, .roomUpdate, .connectionQuality, .subscribedQualityUpdate, .trackSubscribed:
            break
        }
    }

    private mutating func joined(_ join: LiveKitJoinResponse) {
        guard phase == .joining || phase == .opening else { return emit(.note("Ignored: a second join message")) }
        phase = .publishing
        needsSubscriber = join.subscriberPrimary && mode == .dual
        actions += keepalive.joined(join)
        let (servers, relayOnly) = (Array(join.iceServers.prefix(16)), join.clientConfiguration.forceRelay == .enabled)
        emit(mode == .single ? .gather(servers, relayOnly: relayOnly) : .makePeers(servers, relayOnly: relayOnly))
        publish()
        subscribe(to: join.otherParticipants)
    }

    // MARK: Publishing

    private mutating func publish() {
        guard configuration.publishes, isInRoom else { return }
        actions += publisher.publish()
        offerIfDue()
    }

    private mutating func answered(_ answer: LiveKitSessionDescription) {
        guard phase != .joining, publisher.answered(mode == .dual ? 0 : answer.id) else {
            return emit(.note("Ignored: an answer without an offer"))
        }
        subscriptions.note(answer.midToTrackID)
        emit(.cancel(.answer))
        emit(.applyAnswer(sdp: answer.sdp))
        offerIfDue()
    }

    private mutating func offerIfDue() {
        if isInRoom { actions += publisher.offerIfDue(isConnected: phase == .connected) }
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
