// The signalling of one stay in a LiveKit room, from joining to leaving, as a value: events (`RoomEvent`) in, actions
// (`RoomAction`) out. No I/O, clock or lock; timers are data. `RoomConnection` performs the actions.
//
//   opening ─opened→ joining ─join→ publishing ─peers connected→ connected ⇄ resuming
//
// One peer connection carries both directions: its first offer goes with the request to join, and we make all others too,
// one at a time, when our media change, or when the server asks for one to carry another track; all its events have the
// target publisher. If the server does not know such a request, there are two (`TwoConnections`).
//
// A connected stay that has lost its signalling connection or a media path reports it (`recovering`), and the
// session decides: it requests to recover, which is carried out until the stay is restored (`RoomResume`), and it ends
// what takes too long. A stay that the server ends without sending us away is lost (`reportLost`): the session joins the
// same room again. Any other end is a failure, after which the session gets another room.
import RTP
package import DecartProtocol
import DecartSession
import LiveKitProtocol
import Recovery
import WebRTCTransport

package struct RoomMachine: Sendable {
    private enum Phase: Sendable, Equatable {
        case opening, joining, publishing, connected
        /// Media continue, or are to be restored, while the signalling connection is opened again.
        case resuming(RoomResume)
        case ended
    }

    private let configuration: RoomConfiguration
    private var phase = Phase.opening
    /// nil: one peer connection carries both directions.
    private var two: TwoConnections?
    /// The latest token, for joining again.
    package private(set) var token: Secret
    private var connected: Set<LiveKitSignalTarget> = []
    /// Our SID in the room, by which the server finds us again.
    private var participantSID = ""
    /// The server has closed its media connections; it has not named the reason yet.
    private var isClosedByServer = false
    /// The end of the last resume, and its attempts with those of earlier ones that did not last.
    private var lastResume: (endedAt: Duration, attempts: Int)?
    /// Peer connections on which no packets pass; true: ICE has restarted since, so a resume does not wait for media.
    private var lostPaths: [LiveKitSignalTarget: Bool] = [:]
    /// The latest complete exchange of descriptions on the connection that receives, and its offer without an answer.
    private var descriptions: (offer: LiveKitSessionDescription, answer: LiveKitSessionDescription)?
    private var openOffer: LiveKitSessionDescription?
    private var offerCount: UInt32 = 0
    /// Candidates behind the first offer, before there is a signalling connection.
    private var early: [LiveKitTrickleRequest] = []
    private var publisher: RoomPublisher
    private var keepalive = RoomKeepalive()
    private var subscriptions = RoomSubscriptions()
    private var reportedHold: MediaHold?
    /// Time and randomness of the event that is handled.
    private var now: Duration = .zero
    private var jitter = 0.0
    private var actions: [RoomAction] = []

    package init(configuration: RoomConfiguration, token: Secret) {
        self.configuration = configuration
        self.token = token
        two = configuration.prefersOneConnection ? nil : TwoConnections()
        publisher = RoomPublisher(configuration)
    }

    /// One peer connection carries both directions.
    package var usesOneConnection: Bool { two == nil }
    /// The room's ID of our video track, while it is published.
    package var trackSID: String? { publisher.trackSID }
    /// The room carries the trailers of our frames.
    package var carriesTrailers: Bool { publisher.carriesTrailers }
    /// The codec in which we offer video.
    var codec: VideoCodec { publisher.codecs.chosen }
    var desired: DesiredMedia { publisher.desired }

    /// True if the server refuses to let us join, with two connections too.
    func isRefused(with error: SessionError) -> Bool {
        phase == .opening && error.httpStatus ?? 0 >= 400 && !fallsBack(after: error)
    }

    private func fallsBack(after error: SessionError) -> Bool {
        usesOneConnection && error.httpStatus.map(TwoConnections.statuses.contains) ?? false
    }

    private var isInRoom: Bool { phase == .publishing || phase == .connected }

    /// - Parameters:
    ///   - now: monotonic time since an arbitrary origin.
    ///   - jitter: 0…1 at random; used for the waits between attempts to resume.
    package mutating func handle(_ event: RoomEvent, now: Duration, jitter: Double = 0) -> [RoomAction] {
        guard phase != .ended else { return [] }
        (self.now, self.jitter) = (now, jitter)
        switch event {
        case .request(let request): process(request)
        case .signalling(let event): process(event)
        case .peer(let event): process(event)
        case .timerFired(let timer): fired(timer)
        }
        return exchange(&actions, with: [])
    }

    private mutating func process(_ request: RoomRequest) {
        switch request {
        case .open:
            guard usesOneConnection else { return emit(.join(.init())) }
            emit(.makePeer)
            emit(.addReceivers(desired.audio ? [.video: 1, .audio: 1] : [.video: 1]))
            actions += publisher.offerEarly()
        case .desired(let desired):
            guard desired != self.desired else { return }
            publisher.desired = desired
            apply(subscriptions.setAudio(desired.audio))
            publish()
            checkConnected()
        case .mute(let kinds, let endsRoomMute):
            publisher.muted = kinds
            if endsRoomMute { publisher.mutedByRoom = [] }
            if isInRoom { actions += publisher.updateMutes() }
        case .recover: recover()
        case .stop: end()
        }
    }

    private mutating func process(_ event: RoomSignallingEvent) {
        switch event {
        case .opened:
            if phase == .opening { phase = .joining }
            for candidate in exchange(&early, with: []) { emit(.send(.trickle(candidate))) }
            if resume?.step == .opening {
                resume?.step = .joining
                emit(.schedule(.restore, after: RecoveryPlan.Room.answerTimeout))
            }
        case .message(let response):
            if resume.map({ $0.step < .joining }) ?? false { return }
            actions += keepalive.messageArrived()
            guard let message = response.message else { return }
            if resume?.step == .joining { accepted(message) }
            received(message)
            checkRestored()
        case .closed(let code, let reason):
            let parts = [code.map(String.init), reason.isEmpty ? nil : reason.printable(limit: 123)].compactMap(\.self)
            let details = parts.isEmpty ? "" : " (\(parts.joined(separator: ": ")))"
            signallingLost(error("The room closed its signalling connection\(details)."))
        case .failed(let error): signallingLost(error)
        }
    }

    private mutating func process(_ event: RoomPeerEvent) {
        switch event {
        case .offerMade(let sdp):
            offerCount &+= 1
            let offer = description("offer", sdp, id: offerCount)
            if usesOneConnection { openOffer = offer }
            if phase == .opening { emit(.join(publisher.joinRequest(offer))) } else { emit(.send(.offer(offer))) }
        case .answerMade(let sdp, let id):
            let answer = description("answer", sdp, id: id)
            if let openOffer { descriptions = (openOffer, answer) }
            emit(.send(.answer(answer)))
        case .candidateFound(let candidate, let target):
            guard let message = LiveKitTrickleRequest(candidate, target) else { return }
            if phase == .opening { early.append(message) } else { emit(.send(.trickle(message))) }
        case .peerConnected(let target):
            connected.insert(target)
            checkConnected()
        case .videoRejected: fail(publisher.rejection)
        case .peerFailed(let error):
            if resume != nil { lose(error) } else { fail(error) }
        case .peerClosed: closedByServer()
        case .answerFailed(let error):
            // For example, another server process has taken over, and has another certificate.
            endStay(error)
        case .pathLost(let target):
            guard lostPaths[target] == nil else { return }
            lostPaths[target] = false
            if lostPaths.count == 1 { emit(.report(.pathLost)) }
            pathLost(target)
        case .pathRestored(let target):
            guard lostPaths.removeValue(forKey: target) != nil else { return }
            if lostPaths.isEmpty { emit(.report(.pathRecovered)) }
            pathRestored()
        case .iceRestarted(let target):
            lostPaths[target]? = true
            pathRestored()
        }
    }

    private mutating func fired(_ timer: RoomTimer) {
        switch timer {
        case .ping: actions += keepalive.ping(now)
        case .pong: signallingLost(error("The room did not answer a ping; the signalling connection is lost."))
        case .farewell: endStay(error("The server closed the DTLS connection."))
        case .resume: openAgain()
        case .restore:
            guard let resume else {
                // The server did not restart the path that its resume interrupted.
                if let target = waitingPaths.first { pathLost(target) }
                return
            }
            guard resume.step == .joining else {
                return fail("\(resume.cause) The media path could not be restored.")
            }
            let silence = error("\(resume.cause) The room did not answer the request to resume.")
            if lostPaths.isEmpty { openLater(after: silence) } else { fail(silence) }
        case .answer:
            publisher.isOffering = false
            emit(.rollbackOffer)
            emit(.note("The room did not answer an offer that changes the published tracks"))
            offerIfDue()
        }
    }

    private var resume: RoomResume? {
        get { if case .resuming(let resume) = phase { resume } else { nil } }
        set { if let newValue, case .resuming = phase { phase = .resuming(newValue) } }
    }

    // MARK: Server messages

    private mutating func received(_ message: LiveKitSignalResponse.Message) {
        switch message {
        case .join(let join): joined(join)
        case .trackPublished(let published):
            actions += publisher.published(published)
            offerIfDue()
        case .trackUnpublished(let unpublished):
            // The server has removed a track: publish it again.
            if publisher.unpublished(unpublished.trackSid) { publish() }
        case .requestResponse(let response):
            guard response.reason != .ok, response.reason != .queued else { return }
            let reason = response.message.isEmpty ? "\(response.reason)" : response.message.printable(limit: 200)
            if response.$addTrack?.cid == configuration.trackID, desired.video {
                fail("The room rejected the video track: \(reason).")
            } else if response.$addTrack?.cid == configuration.audioTrackID {
                publisher.reject(.audio)
                emit(.note("The room rejected the audio track: \(reason)"))
            } else {
                emit(.note("The room rejected a request: \(reason)"))
            }
        case .answer(let answer): answered(answer)
        case .offer(let offer):
            guard phase != .joining, !usesOneConnection else { return emit(.note("Ignored: an unexpected offer")) }
            openOffer = description("offer", offer.sdp, id: offer.id)
            emit(.makeAnswer(offer: offer.sdp, id: offer.id))
        case .trickle(let trickle):
            guard phase != .joining else { return }
            if let candidate = try? CandidateMessage(decodingInit: [UInt8](trickle.candidateInit.utf8)) {
                emit(.applyCandidate(candidate, trickle.target))
            } else if !trickle.candidateInit.isEmpty {
                emit(.note("Ignored: a candidate that cannot be read"))
            }
            if trickle.final { emit(.applyCandidate(nil, trickle.target)) }
        case .update(let update): apply(subscriptions.update(update.participants))
        case .leave(let leave): left(leave)
        case .refreshToken(let fresh): refreshToken(fresh)
        case .roomMoved(let moved):
            refreshToken(moved.token)
            apply(subscriptions.update(moved.otherParticipants))
        case .pongResp(let pong): keepalive.received(pong, now)
        case .subscriptionResponse(let response): subscriptionRejected(response)
        case .streamStateUpdate(let update):
            subscriptions.update(Array(update.streamStates.prefix(64)))
            // The session forgets a pause whose end was lost with the signalling connection; this may be another one.
            if subscriptions.hold == .pausedByNetwork { reportedHold = nil }
            checkHold()
        case .mute(let mute): actions += publisher.roomMutes(mute)
        case .mediaSectionsRequirement(let requirement):
            guard usesOneConnection else { return emit(.note("Ignored: a message for clients with one connection")) }
            let (videos, audios) = (Int(requirement.numVideos), Int(requirement.numAudios))
            if videos > 0 || audios > 0 { emit(.addReceivers([.video: videos, .audio: audios])) }
            publisher.needsOffer = true
            offerIfDue()
        case .reconnect, .pong, .roomUpdate, .connectionQuality, .trackSubscribed, .subscriptionPermissionUpdate: break
        case .subscribedQualityUpdate(let update): actions += publisher.wanted(update)
        }
    }

    private mutating func joined(_ join: LiveKitJoinResponse) {
        guard phase == .joining || phase == .opening else { return emit(.note("Ignored: a second join message")) }
        phase = .publishing
        participantSID = join.participant.sid.utf8.count <= 256 ? join.participant.sid : ""
        two?.needsSubscriber = join.subscriberPrimary
        actions += keepalive.joined(join)
        emit(.useServers(join.iceServers, relayOnly: join.clientConfiguration.forceRelay == .enabled))
        if !join.sifTrailer.isEmpty, join.sifTrailer.count <= 256 { emit(.setFillerTrailer(join.sifTrailer)) }
        actions += publisher.choose(from: join.enabledPublishCodecs)
        publish()
        apply(subscriptions.update(join.otherParticipants))
    }

    private mutating func refreshToken(_ fresh: String) {
        if !fresh.isEmpty, fresh.utf8.count <= 8192 { token = Secret(fresh) }
    }

    // MARK: Publishing

    private mutating func publish() {
        guard configuration.publishes, isInRoom else { return }
        if let problem = publisher.codecProblem { return fail(problem) }
        actions += publisher.publish()
        offerIfDue()
    }

    private mutating func answered(_ answer: LiveKitSessionDescription) {
        guard phase != .joining, exchange(&publisher.isOffering, with: false) else {
            return emit(.note("Ignored: an answer without an offer"))
        }
        if usesOneConnection, let offer = openOffer.take() { descriptions = (offer, answer) }
        emit(.cancel(.answer))
        emit(.applyAnswer(sdp: answer.sdp))
        offerIfDue()
    }

    private mutating func offerIfDue() {
        if isInRoom { actions += publisher.offerIfDue(isConnected: phase == .connected) }
    }

    // MARK: Subscribing

    private mutating func apply(_ changes: [RoomSubscriptions.Change]) {
        for change in changes {
            switch change {
            case .subscribe(let update): emit(.send(.subscription(update)))
            // Only a viewer ends here, because a room with viewers may stay open indefinitely. The service
            // informs a publisher.
            case .left(leavesNothing: true) where !configuration.publishes:
                return fail("The session has ended: its video track left the room.")
            case .left: emit(.note("The inference server left the room"))
            }
        }
        checkHold()
    }

    private mutating func subscriptionRejected(_ response: LiveKitSubscriptionResponse) {
        let format = response.trackSid.isEmpty ? "" : subscriptions.format(of: response.trackSid)
        guard response.err == .seCodecUnsupported, let format else {
            return emit(.note("The room rejected a subscription: \(response.err)"))
        }
        let named = format.isEmpty ? "a codec" : format
        let isReceivable = configuration.receivable.contains { $0.encodingName == format }
        let problem =
            isReceivable
            ? "in a form that was not accepted"
            : "which cannot be received here" + (configuration.remedies[format].map { ": \($0)" } ?? "")
        fail("The service sends \(named) in the room, \(problem).")
    }

    private mutating func checkHold() {
        guard phase != .ended, subscriptions.hold != reportedHold else { return }
        reportedHold = subscriptions.hold
        emit(.report(.hold(reportedHold)))
    }

    /// See `RoomSubscriptions.isWanted`.
    package func isWanted(msid: String?) -> Bool { subscriptions.isWanted(msid: msid) }

    private mutating func checkConnected() {
        let needed = two?.needed(desired, publishes: configuration.publishes) ?? [.publisher]
        guard phase == .publishing, needed.isSubset(of: connected) else { return }
        phase = .connected
        emit(.reportConnected)
    }

    // MARK: Resuming

    /// The signalling connection is lost, or the present attempt to open another one has failed.
    /// - Parameters:
    ///   - restartsICE: the server's side of a media path has failed, or the participant moves to another server.
    ///   - regions: see `RoomResume`.
    private mutating func signallingLost(
        _ error: SessionError, restartsICE: Bool = false, regions: [String] = []
    ) {
        switch phase {
        // Both are closed when a participant moves to another server: its connections there have other certificates.
        case .connected, .resuming:
            if isClosedByServer { return lose(error) }
            guard resume != nil else {
                return beginResume(
                    error.message, .rrSignalDisconnected, restartsICE: restartsICE, regions: regions)
            }
            if error.isPermanent { return fail(error) }
            if [401, 403, 404].contains(error.httpStatus) { return lose(error) }
            if restartsICE { resume?.restartsICE = true }
            openLater(after: error)
        case .opening where fallsBack(after: error):
            (openOffer, early) = (nil, [])
            two = TwoConnections()
            publisher.beginAgain()
            emit(.dropPeer)
            emit(.join(.init()))
        case .opening, .joining, .publishing, .ended: fail(error)
        }
    }

    private mutating func pathLost(_ target: LiveKitSignalTarget) {
        switch phase {
        // At each resume the server restarts ICE on the connection for which it makes the offers, and closes its TCP
        // connections before the offer.
        case .connected where target == .subscriber && hasResumed(within: RecoveryPlan.Room.restartTime):
            emit(.schedule(.restore, after: RecoveryPlan.Room.answerTimeout))
        case .connected:
            beginResume(
                "No packets pass on a media path of the room.",
                target == .subscriber ? .rrSubscriberFailed : .rrPublisherFailed)
        case .resuming(let resume) where resume.step == .restoring: restartICEIfNeeded()
        case .resuming, .opening, .joining, .publishing, .ended: break
        }
    }

    private func hasResumed(within time: Duration) -> Bool { lastResume.map { now - $0.endedAt < time } ?? false }

    /// Waits for the request to recover.
    private mutating func beginResume(
        _ cause: String, _ reason: LiveKitReconnectReason, restartsICE: Bool = false, regions: [String] = []
    ) {
        guard !participantSID.isEmpty else { return fail(cause) }
        // A server that accepts each resume and ends it again does not choose their pace.
        let earlier = hasResumed(within: RecoveryPlan.Room.rejoinInterval) ? lastResume?.attempts ?? 0 : 0
        phase = .resuming(
            RoomResume(
                cause: cause, reason: reason, startedAt: now, earlierAttempts: earlier, restartsICE: restartsICE,
                regions: regions.prefix(RoomResume.maximumRegionCount)))
        lostPaths = lostPaths.mapValues { _ in false }
        interrupted(error(cause))
    }

    private mutating func interrupted(_ cause: SessionError) {
        emit(.report(.recovering(cause)))
        actions += publisher.signallingLost() + keepalive.lost()
        openOffer = nil
        emit(.cancel(.restore))
        emit(.close)
    }

    private mutating func recover() {
        guard let resume else {
            guard phase == .connected, !participantSID.isEmpty else { return }
            return beginResume("No media arrive from the room.", .rrSubscriberFailed, restartsICE: true)
        }
        guard resume.attempts > 0 else { return openLater() }
        // The wait, or the dial, was meant for the former network.
        guard resume.step < .joining else { return }
        if resume.step == .opening { emit(.close) }
        self.resume?.step = .waiting
        openAgain()
    }

    /// - Parameter error: why the present attempt has failed.
    private mutating func openLater(after error: SessionError? = nil) {
        if let error { interrupted(error) }
        let (mediaPass, jitter) = (lostPaths.isEmpty, jitter)
        let wait = resume?.nextWait(mediaPass: mediaPass, jitter: jitter) ?? .zero
        guard wait > .zero else { return openAgain() }
        emit(.schedule(.resume, after: wait))
    }

    private mutating func openAgain() {
        guard let resume, resume.step == .waiting else { return }
        self.resume?.step = .opening
        emit(.cancel(.resume))
        let request = LiveKitJoinRequest.with {
            ($0.reconnect, $0.participantSid, $0.reconnectReason) = (true, participantSID, resume.reason)
        }
        emit(.resume(request, url: resume.url))
    }

    /// The server's first message accepts the resume, unless it is a leave request.
    private mutating func accepted(_ message: LiveKitSignalResponse.Message) {
        if case .leave = message { return }
        if case .reconnect(let answer) = message, answer.$clientConfiguration != nil || !answer.iceServers.isEmpty {
            emit(.useServers(answer.iceServers, relayOnly: answer.clientConfiguration.forceRelay == .enabled))
        }
        resume?.step = .restoring
        emit(.schedule(.restore, after: RecoveryPlan.Room.restoreTimeout))
        let state = LiveKitSyncState.with {
            if let descriptions { ($0.offer, $0.answer) = descriptions }
            ($0.subscription, $0.publishTracks) = (subscriptions.current, publisher.publishedTracks)
        }
        emit(.send(.syncState(state)))
        restartICEIfNeeded()
    }

    /// Restarts ICE on the connection for which we make the offers; the server restarts its own one.
    private mutating func restartICEIfNeeded() {
        guard let resume, resume.restartsICE || lostPaths[.publisher] != nil else { return }
        self.resume?.restartsICE = false
        actions += publisher.restartICE()
    }

    /// Those of the lost paths on which ICE has not restarted.
    private var waitingPaths: [LiveKitSignalTarget] { lostPaths.compactMap { $0.value ? nil : $0.key } }

    private mutating func pathRestored() {
        if waitingPaths.isEmpty, phase == .connected { emit(.cancel(.restore)) }
        checkRestored()
    }

    private mutating func checkRestored() {
        guard let resume, resume.step == .restoring, waitingPaths.isEmpty, !publisher.isOffering else { return }
        phase = .connected
        lastResume = (now, resume.allAttempts)
        emit(.cancel(.restore))
        emit(.reportResumed(after: now - resume.startedAt, attempts: resume.attempts))
        actions += keepalive.resumed() + publisher.announceAgain()
        for request in resume.held { emit(.send(request)) }
        publish()
    }

    // MARK: Leaving

    /// A leave request ends the stay unless the server wants us to resume. The session decides whether to retry, and
    /// requests a new room for it.
    private mutating func left(_ leave: LiveKitLeaveRequest) {
        let action = leave.action == .disconnect && leave.canReconnect ? .reconnect : leave.action
        if action == .resume, phase == .connected || resume != nil {
            let regions = leave.regions.regions.map(\.url)
            return signallingLost(
                error("The room asked to resume (\(leave.reason))."), restartsICE: true, regions: regions)
        }
        let reason =
            "The room closed the session (\(leave.reason), \(action))"
            + (leave.reason == .duplicateIdentity ? ": another participant joined with the same token." : ".")
        if action == .reconnect { endStay(error(reason)) } else { fail(reason) }
    }

    /// Usually the reason follows: the server closes signalling and media in parallel, and either end may arrive first.
    private mutating func closedByServer() {
        guard !isClosedByServer else { return }
        isClosedByServer = true
        if let resume, resume.step < .joining { return lose(error(resume.cause)) }
        emit(.schedule(.farewell, after: RecoveryPlan.Room.farewellTimeout))
    }

    private func description(_ type: String, _ sdp: String, id: UInt32) -> LiveKitSessionDescription {
        .with { ($0.type, $0.sdp, $0.id) = (type, sdp, id) }
    }

    private func error(_ text: String) -> SessionError { SessionError(.webRTC, text, stage: .media) }

    private mutating func fail(_ text: String) { fail(error(text)) }

    private mutating func fail(_ error: SessionError) {
        end()
        emit(.report(.closedByPeer(error)))
    }

    private mutating func endStay(_ error: SessionError) {
        if phase == .connected || resume != nil { lose(error) } else { fail(error) }
    }

    /// Ends the stay; the same room may be joined again.
    private mutating func lose(_ error: SessionError) {
        if error.isPermanent { return fail(error) }
        end()
        emit(.reportLost(error))
    }

    private mutating func end() {
        if phase != .opening, phase != .ended {
            emit(.send(.leave(.with { ($0.action, $0.reason) = (.disconnect, .clientInitiated) })))
        }
        phase = .ended
        for timer in RoomTimer.allCases { emit(.cancel(timer)) }
        emit(.close)
    }

    private mutating func emit(_ action: RoomAction) {
        if case .send(let message) = action, let resume, !resume.passes(message) {
            self.resume?.hold(message)
            return
        }
        actions.append(action)
    }
}
