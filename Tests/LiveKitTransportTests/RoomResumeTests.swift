import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// A stay that continues after a loss of its signalling connection or of a media path, for each fault and phase.
@Suite("Resuming a stay in a room", .timeLimit(.minutes(1)))
struct RoomResumeTests {
    private let resume = resume(for: .rrSignalDisconnected)
    private let reconnect = LiveKitSignalResponse.Message.reconnect(.init())

    private static func resume(for reason: LiveKitReconnectReason) -> RoomAction {
        .resume(
            .with { ($0.reconnect, $0.participantSid, $0.reconnectReason) = (true, "PA_me", reason) }, url: nil)
    }

    private func leave(
        _ action: LiveKitLeaveRequest.Action, _ reason: LiveKitDisconnectReason = .connectionTimeout,
        regions: [String] = []
    ) -> LiveKitSignalResponse.Message {
        .leave(
            .with {
                ($0.action, $0.reason) = (action, reason)
                $0.regions.regions = regions.map { url in .with { $0.url = url } }
            })
    }

    private func failure(status: Int) -> RoomSignallingEvent {
        .failed(SessionError(.server, "HTTP \(status)", stage: .media, httpStatus: status))
    }

    private func isResumed(_ action: RoomAction) -> Bool {
        if case .reportResumed = action { true } else { false }
    }

    private func isRecovering(_ action: RoomAction) -> Bool {
        if case .report(.recovering) = action { true } else { false }
    }

    private func recovering(_ cause: String) -> RoomAction {
        .report(.recovering(SessionError(.webRTC, cause, stage: .media)))
    }

    private func isEnd(_ action: RoomAction) -> Bool {
        switch action {
        case .report(.closedByPeer), .reportLost: true
        default: false
        }
    }

    private func isLoss(_ action: RoomAction) -> Bool {
        if case .reportLost = action { true } else { false }
    }

    private func connected() -> RoomDriver {
        var driver = RoomDriver(at: .connected)
        driver.published("camera", "TR_in")
        driver.update(RoomDriver.worker)
        _ = driver.takeActions()
        return driver
    }

    // MARK: The signalling connection is lost

    @Test func wholeResumeInOrder() throws {
        var driver = connected()
        driver.server(.offer(.with { ($0.type, $0.sdp, $0.id) = ("offer", "theirs", 4) }))
        driver.handle(.answerMade(sdp: "ours", offer: 4))
        driver.server(.refreshToken("second"))
        _ = driver.takeActions()

        driver.handle(.closed(code: 1006, reason: ""))
        #expect(
            driver.takeActions() == [
                recovering("The room closed its signalling connection (1006)."), .close, resume,
            ])
        #expect(driver.machine.token == Secret("second"))
        driver.handle(.opened)
        #expect(driver.takeActions().isEmpty && driver.timers[.ping] == nil)
        driver.wait(.milliseconds(40))
        driver.server(reconnect)
        let actions = driver.takeActions()
        guard case .send(.syncState(let state)) = actions.first else {
            Issue.record("SyncState is not the first message")
            return
        }
        #expect((state.offer.sdp, state.offer.type, state.offer.id) == ("theirs", "offer", 4))
        #expect((state.answer.sdp, state.answer.type) == ("ours", "answer"))
        #expect(state.subscription.subscribe && state.subscription.trackSids == ["TR_out"])
        #expect(state.subscription.participantTracks.map(\.participantSid) == ["PA_worker"])
        #expect(state.publishTracks.map(\.track.sid) == ["TR_in"] && state.publishTracks.map(\.cid) == ["camera"])
        // Nothing is offered or announced again.
        #expect(actions.dropFirst() == [.reportResumed(after: .milliseconds(40), attempts: 1)])
        #expect(driver.timers[.ping] != nil && driver.timers[.restore] == nil && driver.timers[.resume] == nil)
        // The server restarts ICE on the connection for which it makes the offers.
        driver.server(.offer(.with { ($0.sdp, $0.id) = ("restart", 5) }))
        #expect(driver.takeActions() == [.makeAnswer(offer: "restart", id: 5)])
        // The stay can be resumed any number of times.
        driver.handle(.failed(SessionError(.network, "reset", stage: .media)))
        #expect(driver.takeActions() == [recovering("reset"), .close, resume])
    }

    /// Servers without the message `reconnect` continue with any other one.
    @Test func anyFirstMessageAccepts() {
        var driver = RoomDriver(at: .resuming)
        _ = driver.takeActions()
        driver.server(.refreshToken("third"))
        let actions = driver.takeActions()
        #expect(actions.count == 2 && actions.contains(where: isResumed))
        #expect(driver.machine.token == Secret("third"))
    }

    /// Before its media flow, a lost stay is not resumed: the session joins a room again.
    @Test func nothingIsResumedBeforeMediaFlow() {
        let walks: [(inout RoomDriver) -> Void] = [
            { _ in }, { $0.handle(.opened) }, { $0.walkToPublishing() }, { $0.walkToOffered() },
        ]
        for walk in walks {
            for event in [
                RoomSignallingEvent.closed(code: 1006, reason: ""), .message(.with { $0.message = leave(.resume) }),
            ] {
                var driver = RoomDriver()
                walk(&driver)
                _ = driver.takeActions()
                driver.handle(event)
                let actions = driver.takeActions()
                #expect(!actions.contains(resume))
                #expect(actions.count(where: isEnd) == 1, "\(actions)")
                #expect(driver.timers.isEmpty)
            }
        }
    }

    @Test func aParticipantWithoutSIDIsNotResumed() {
        var driver = RoomDriver()
        driver.walkToPublishing(.with { $0.subscriberPrimary = false })
        driver.server(.trackPublished(.with { $0.cid = "camera" }))
        driver.handle(.peerConnected(.publisher))
        driver.handle(.closed(code: 1006, reason: ""))
        #expect(driver.failures().count == 1)
    }

    // MARK: Attempts

    /// Nothing is torn down, and nothing begins by itself: the session decides.
    @Test func aResumeWaitsForTheSession() {
        let losses: [(inout RoomDriver) -> Void] = [
            { $0.handle(.closed(code: 1006, reason: "")) }, { $0.server(self.leave(.resume)) },
            { $0.handle(.pathLost(.publisher)) }, { $0.handle(.recover) },
        ]
        for loss in losses {
            var driver = connected()
            driver.recovers = false
            loss(&driver)
            let actions = driver.takeActions().filter { $0 != .report(.pathLost) }
            #expect(actions.count == 2 && isRecovering(actions[0]) && actions[1] == .close, "\(actions)")
            driver.wait(.seconds(600))
            driver.handle(.opened)
            #expect(driver.takeActions().isEmpty && driver.timers.isEmpty)
            driver.handle(.recover)
            #expect(driver.takeActions().contains { if case .resume = $0 { true } else { false } })
        }
    }

    /// The session limits them. Each one names its failure.
    @Test(arguments: [true, false]) func attemptsHaveABackOffAndNoLimit(mediaPass: Bool) {
        var driver = connected()
        if mediaPass { driver.handle(.closed(code: 1006, reason: "")) } else { driver.handle(.pathLost(.publisher)) }
        _ = driver.takeActions()
        var times = [driver.now]
        for count in 0..<100 {
            driver.handle(.failed(SessionError(.network, "refused \(count)", stage: .media)))
            let reports = driver.takeActions().filter(isRecovering)
            #expect(reports.count == 1 && "\(reports)".contains("refused \(count)"), "\(reports)")
            if let due = driver.timers[.resume] { driver.wait(due - driver.now) }
            #expect(driver.takeActions().contains { if case .resume = $0 { true } else { false } })
            times.append(driver.now)
        }
        let longest = mediaPass ? Duration.seconds(2) : .milliseconds(500)
        let waits = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(waits.prefix(4) == [.milliseconds(250), .milliseconds(500), min(.seconds(1), longest), longest])
        #expect(waits.dropFirst(4).allSatisfy { $0 == longest })
        driver.reopen()
        if !mediaPass {
            driver.handle(.offerMade(sdp: "new credentials"))
            driver.server(.answer(.with { $0.sdp = "theirs" }))
            driver.handle(.pathRestored(.publisher))
        }
        #expect(driver.takeActions().contains(where: isResumed))
    }

    @Test(arguments: [401, 403, 404])
    func aRefusalLosesTheStayAtOnce(status: Int) {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        _ = driver.takeActions()
        driver.handle(failure(status: status))
        let actions = driver.takeActions()
        #expect(actions.first == .close && actions.count == 2)
        // The room may be joined again.
        guard case .reportLost(let error) = actions.last else {
            Issue.record("no loss")
            return
        }
        #expect(!error.isPermanent && error.httpStatus == status && driver.timers.isEmpty)
    }

    @Test(arguments: [500, 503])
    func aServerThatRestartsIsTriedAgain(status: Int) {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        driver.handle(failure(status: status))
        _ = driver.takeActions()
        driver.wait(.milliseconds(250))
        #expect(driver.takeActions() == [resume])
    }

    @Test(arguments: [LiveKitLeaveRequest.Action.reconnect, .disconnect])
    func aLeaveRequestRefuses(action: LiveKitLeaveRequest.Action) {
        var driver = RoomDriver(at: .resuming)
        _ = driver.takeActions()
        driver.server(leave(action, .stateMismatch))
        let actions = driver.takeActions()
        #expect(!actions.contains(where: isResumed))
        #expect(actions.count(where: isEnd) == 1 && actions.contains(where: isLoss) == (action == .reconnect))
        #expect(!actions.contains { if case .send(.syncState) = $0 { true } else { false } })
        #expect(driver.timers.isEmpty)
    }

    @Test func aServerThatDoesNotAnswerIsGivenUp() {
        var driver = RoomDriver(at: .resuming)
        _ = driver.takeActions()
        driver.wait(.milliseconds(4999))
        #expect(driver.takeActions().isEmpty)
        // Media flow, so another attempt follows.
        driver.wait(.milliseconds(251))
        let actions = driver.takeActions()
        #expect(actions.first.map(isRecovering) == true && actions.dropFirst() == [.close, resume])
        driver.handle(.pathLost(.publisher))
        driver.handle(.opened)
        _ = driver.takeActions()
        driver.wait(.seconds(5))
        #expect(driver.failures().first?.message.hasSuffix("The room did not answer the request to resume.") == true)
        #expect(driver.timers.isEmpty)
    }

    @Test func aSecondLossBeginsAnotherAttempt() {
        // While opening, while joining, and while ICE restarts.
        let walks: [(inout RoomDriver) -> Void] = [
            { _ in }, { $0.handle(.opened) },
            { driver in
                driver.handle(.pathLost(.publisher))
                driver.handle(.opened)
                driver.server(.reconnect(.init()))
            },
        ]
        for walk in walks {
            var driver = connected()
            driver.handle(.closed(code: 1006, reason: ""))
            walk(&driver)
            _ = driver.takeActions()
            driver.handle(.closed(code: 1006, reason: ""))
            #expect(driver.failures().isEmpty)
            driver.wait(.milliseconds(250))
            #expect(driver.takeActions() == [resume])
            #expect(driver.timers.isEmpty)
        }
    }

    @Test func aChangeOfNetworkEndsTheWait() {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        driver.handle(failure(status: 503))
        _ = driver.takeActions()
        driver.handle(.recover)
        #expect(driver.takeActions() == [resume] && driver.timers[.resume] == nil)
        // A dial that hangs in the former network is given up.
        driver.handle(.recover)
        #expect(driver.takeActions() == [.close, resume])
        driver.handle(.opened)
        driver.handle(.recover)
        #expect(driver.takeActions().isEmpty)
    }

    @Test func stopsInEachPhase() {
        let walks: [((inout RoomDriver) -> Void, sendsLeave: Bool)] = [
            ({ $0.handle(.failed(SessionError(.network, "refused", stage: .media))) }, false),
            ({ _ in }, false),
            ({ $0.handle(.opened) }, true),
        ]
        for (walk, sendsLeave) in walks {
            var driver = connected()
            driver.handle(.closed(code: 1006, reason: ""))
            walk(&driver)
            _ = driver.takeActions()
            driver.handle(.stop)
            let actions = driver.takeActions()
            #expect(actions.last == .close && actions.count == (sendsLeave ? 2 : 1))
            #expect(driver.timers.isEmpty)
            driver.reopen()
            #expect(driver.takeActions().isEmpty)
        }
    }

    @Test func lateMessagesOfTheLostConnectionAreIgnored() {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        _ = driver.takeActions()
        driver.server(leave(.disconnect))
        driver.server(.answer(.with { $0.sdp = "late" }))
        #expect(driver.takeActions().isEmpty)
    }

    /// A server that accepts each resume and ends it at once does not choose their pace.
    @Test func resumesThatDoNotLastArePaced() {
        var driver = connected()
        var times: [Duration] = []
        for _ in 0..<8 {
            driver.handle(.closed(code: 1006, reason: ""))
            if let due = driver.timers[.resume] { driver.wait(due - driver.now) }
            #expect(driver.takeActions().last == resume)
            times.append(driver.now)
            driver.reopen()
            #expect(driver.takeActions().contains(where: isResumed))
        }
        let waits = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(waits == [.zero, .milliseconds(250), .milliseconds(500)] + [1, 2, 2, 2].map { .seconds($0) })
        driver.wait(.seconds(10))
        driver.handle(.closed(code: 1006, reason: ""))
        #expect(driver.takeActions().last == resume && driver.timers[.resume] == nil)
    }

    // MARK: Requests during a resume

    @Test func requestsWait() {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        _ = driver.takeActions()
        driver.handle(.desired(DesiredMedia(video: true, audio: true)))
        driver.handle(.candidateFound(CandidateMessage(candidate: "candidate:1"), .publisher))
        #expect(driver.takeActions().isEmpty)
        driver.reopen()
        let sent = driver.sent()
        #expect(sent.count == 3)
        guard case .syncState? = sent.first, case .trickle = sent[1], case .addTrack(let track)? = sent.last else {
            Issue.record("\(sent)")
            return
        }
        #expect(track.cid == "microphone")
    }

    @Test func anAnnouncementWithoutAnswerIsRepeated() {
        var driver = connected()
        driver.handle(.desired(DesiredMedia(video: true, audio: true)))
        _ = driver.takeActions()
        driver.handle(.closed(code: 1006, reason: ""))
        driver.handle(.opened)
        _ = driver.takeActions()
        driver.server(reconnect)
        #expect(
            driver.sent().compactMap { if case .addTrack(let track) = $0 { track.cid } else { nil } } == ["microphone"])
    }

    /// The last mute may have been lost with its connection.
    @Test func aMuteIsRepeated() {
        var driver = connected()
        for muted: Set<MediaKind> in [[.video], []] {
            driver.handle(.mute(muted, endsRoomMute: false))
            driver.handle(.closed(code: 1006, reason: ""))
            driver.handle(.opened)
            _ = driver.takeActions()
            driver.server(reconnect)
            let mutes = driver.sent().compactMap { if case .mute(let mute) = $0 { mute } else { nil } }
            #expect(mutes.map(\.sid) == ["TR_in"] && mutes.map(\.muted) == [muted == [.video]])
        }
    }

    /// The answer to an offer is lost with the connection.
    @Test func anOfferWithoutAnswerIsRepeated() {
        var driver = connected()
        driver.handle(.desired(DesiredMedia(video: true, audio: true)))
        driver.published("microphone", "TR_mic")
        driver.handle(.offerMade(sdp: "with audio"))
        _ = driver.takeActions()
        driver.handle(.closed(code: 1006, reason: ""))
        #expect(driver.takeActions().contains(.rollbackOffer) && driver.timers[.answer] == nil)
        driver.reopen()
        #expect(driver.takeActions().last == .makeOffer([.video, .audio]))
    }

    // MARK: A media path is lost

    @Test(arguments: [
        (LiveKitSignalTarget.publisher, LiveKitReconnectReason.rrPublisherFailed),
        (.subscriber, .rrSubscriberFailed),
    ])
    func aLostPathRestartsICE(target: LiveKitSignalTarget, reason: LiveKitReconnectReason) {
        var driver = connected()
        driver.handle(.pathLost(target))
        #expect(driver.takeActions().contains(.report(.pathLost)))
        driver.handle(.failed(SessionError(.network, "unreachable", stage: .media)))
        driver.wait(.milliseconds(250))
        #expect(driver.takeActions().last == Self.resume(for: reason))
        driver.reopen()
        // Only the connection for which we make the offers is restarted by us.
        let actions = driver.takeActions()
        #expect(actions.contains(.restartICE([.video])) == (target == .publisher))
        #expect(!actions.contains(where: isResumed))
        if target == .publisher {
            driver.handle(.offerMade(sdp: "new credentials"))
            #expect(
                driver.sent() == [
                    .offer(.with { ($0.type, $0.sdp, $0.id) = ("offer", "new credentials", 2) })
                ])
            driver.server(.answer(.with { $0.sdp = "their credentials" }))
            #expect(driver.takeActions() == [.applyAnswer(sdp: "their credentials")])
        }
        driver.handle(.pathRestored(target))
        let end = driver.takeActions()
        #expect(end.contains(where: isResumed) && end.contains(.report(.pathRecovered)))
        #expect(driver.timers[.restore] == nil)
    }

    /// ICE restarts, and media still do not pass: the resume ends, and the session judges the path, which stays lost.
    @Test func restartedICEProvesNoMedia() {
        var driver = connected()
        driver.handle(.pathLost(.publisher))
        driver.reopen()
        driver.handle(.offerMade(sdp: "new credentials"))
        driver.server(.answer(.with { $0.sdp = "their credentials" }))
        #expect(!driver.takeActions().contains(where: isResumed))
        driver.handle(.iceRestarted(.publisher))
        let end = driver.takeActions()
        #expect(end.contains(where: isResumed) && !end.contains(.report(.pathRecovered)))
        #expect(driver.timers[.restore] == nil)
        // Another loss on the same path begins no second resume before its media pass again.
        driver.handle(.pathLost(.publisher))
        #expect(driver.takeActions().isEmpty)
        driver.handle(.pathRestored(.publisher))
        #expect(driver.takeActions() == [.report(.pathRecovered)])
        driver.handle(.pathLost(.publisher))
        #expect(driver.takeActions().contains(.report(.pathLost)))
        // The restart before this loss does not count.
        driver.reopen()
        #expect(!driver.takeActions().contains(where: isResumed))
    }

    @Test func aPathThatStaysDeadEndsTheStay() {
        var driver = connected()
        driver.handle(.pathLost(.subscriber))
        driver.reopen()
        driver.wait(.seconds(10))
        #expect(driver.failures().first?.message.hasSuffix("The media path could not be restored.") == true)
    }

    /// Media are missing, packets are not. LiveKit restarts ICE on the subscriber in a resume
    /// (livekit/client-sdk-js, `RTCEngine.resumeConnection`).
    @Test func aStallRestartsICEOnBothConnections() {
        var driver = connected()
        driver.handle(.recover)
        #expect(
            driver.takeActions() == [
                recovering("No media arrive from the room."), .close,
                Self.resume(for: .rrSubscriberFailed),
            ])
        driver.reopen()
        #expect(driver.takeActions().last == .restartICE([.video]))
        driver.handle(.offerMade(sdp: "new credentials"))
        driver.server(.answer(.with { $0.sdp = "their credentials" }))
        #expect(driver.takeActions().contains(where: isResumed))
    }

    @Test func aStallThatCannotBeResumedChangesNothing() {
        var driver = RoomDriver(at: .publishing)
        _ = driver.takeActions()
        driver.handle(.recover)
        #expect(driver.takeActions().isEmpty)
    }

    /// Without media each second counts.
    @Test func attemptsAreFrequentWithoutMedia() {
        var driver = connected()
        driver.handle(.pathLost(.publisher))
        var waits: [Duration] = []
        for _ in 0..<8 {
            driver.handle(.failed(SessionError(.network, "unreachable", stage: .media)))
            guard let due = driver.timers[.resume] else { break }
            waits.append(due - driver.now)
            driver.wait(due - driver.now)
        }
        #expect(waits.count == 8 && waits.allSatisfy { $0 <= .milliseconds(500) })
    }

    // MARK: The server closes the media

    private static let messageOfAlert = "The server closed the DTLS connection."

    /// The close alert and the reason travel on two connections, and either may come first.
    @Test(arguments: [(LiveKitLeaveRequest.Action.disconnect, false), (.reconnect, true)])
    func theReasonOfAnEndIsWaitedFor(action: LiveKitLeaveRequest.Action, isLost: Bool) throws {
        var driver = connected()
        driver.handle(.peerClosed)
        driver.handle(.peerClosed)
        driver.wait(.milliseconds(249))
        #expect(driver.takeActions().isEmpty)
        driver.server(leave(action, .participantRemoved))
        let end = try #require(driver.takeActions().last)
        #expect(isEnd(end) && isLoss(end) == isLost && "\(end)".contains("participantRemoved"), "\(end)")
        #expect(driver.timers.isEmpty)
    }

    @Test func anEndWithoutReason() {
        var driver = connected()
        driver.handle(.peerClosed)
        driver.wait(.milliseconds(250))
        #expect(driver.losses().map(\.message) == [Self.messageOfAlert])
        // Before media flow there is nothing to join again.
        var early = RoomDriver(at: .offered)
        early.handle(.peerClosed)
        early.wait(.milliseconds(250))
        #expect(early.failures().map(\.message) == [Self.messageOfAlert])
    }

    /// A participant moves to another server process, whose certificate is another one: signalling and media are closed,
    /// in either order, or the resume brings an offer that the present connection cannot answer.
    @Test func aMigrationWithoutLeave() {
        let walks: [(inout RoomDriver) -> Void] = [
            { driver in
                driver.handle(.peerClosed)
                driver.handle(.closed(code: 1000, reason: ""))
            },
            { driver in
                driver.handle(.closed(code: 1000, reason: ""))
                driver.handle(.peerClosed)
            },
            { driver in
                driver.handle(.closed(code: 1000, reason: ""))
                driver.reopen()
                driver.handle(.peerClosed)
                driver.wait(.milliseconds(250))
            },
            { driver in
                driver.handle(.closed(code: 1000, reason: ""))
                driver.reopen()
                driver.server(.offer(.with { ($0.sdp, $0.id) = ("another certificate", 5) }))
                driver.handle(.answerFailed(SessionError(.webRTC, "another certificate", stage: .media)))
            },
        ]
        for walk in walks {
            var driver = connected()
            walk(&driver)
            let actions = driver.takeActions()
            #expect(actions.count(where: isLoss) == 1 && actions.count(where: isEnd) == 1, "\(actions)")
            #expect(driver.timers.isEmpty)
        }
    }

    /// A connection that fails in a resume is replaced, because the room can be joined again.
    @Test func aConnectionThatFailsInAResume() {
        var driver = RoomDriver(at: .resuming)
        driver.handle(.peerFailed(SessionError(.webRTC, "no path", stage: .media)))
        #expect(driver.losses().map(\.message) == ["no path"])
        var fatal = RoomDriver(at: .resuming)
        fatal.handle(.peerFailed(SessionError(.webRTC, "wrong certificate", stage: .media, isPermanent: true)))
        #expect(fatal.failures().map(\.isPermanent) == [true])
    }

    /// At each resume the server restarts ICE, and closes its TCP connections some milliseconds before its offer.
    @Test func aPathThatTheResumeInterrupts() {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        driver.reopen()
        #expect(driver.takeActions().contains(where: isResumed))
        driver.wait(.milliseconds(10))
        driver.handle(.pathLost(.subscriber))
        #expect(driver.takeActions() == [.report(.pathLost)])
        driver.server(.offer(.with { ($0.sdp, $0.id) = ("restart", 5) }))
        driver.handle(.pathRestored(.subscriber))
        #expect(driver.takeActions() == [.makeAnswer(offer: "restart", id: 5), .report(.pathRecovered)])
        #expect(driver.timers[.restore] == nil)
        // A server that does not restart it is asked to.
        driver.handle(.pathLost(.subscriber))
        _ = driver.takeActions()
        driver.wait(.seconds(5))
        #expect(driver.takeActions().contains(Self.resume(for: .rrSubscriberFailed)))
    }

    // MARK: The server asks for it

    @Test func leaveWithResume() {
        var driver = connected()
        driver.server(leave(.resume))
        #expect(
            driver.takeActions() == [
                recovering("The room asked to resume (connectionTimeout)."), .close, resume,
            ])
        driver.reopen()
        // The server's side of the path has failed, whatever ours looks like.
        #expect(driver.takeActions().last == .restartICE([.video]))
        driver.handle(.offerMade(sdp: "new credentials"))
        driver.server(.answer(.with { $0.sdp = "theirs" }))
        #expect(driver.takeActions().contains(where: isResumed))
    }

    /// The regions come in turn, then the room's own URL.
    @Test func migration() {
        var driver = connected()
        driver.server(leave(.resume, .migration, regions: ["wss://near.example", "wss://far.example"]))
        var urls: [String?] = []
        for _ in 0..<4 {
            for case .resume(_, let url) in driver.takeActions() { urls.append(url) }
            driver.handle(.failed(SessionError(.network, "unreachable", stage: .media)))
            if let due = driver.timers[.resume] { driver.wait(due - driver.now) }
        }
        #expect(urls == ["wss://near.example", "wss://far.example", nil, "wss://near.example"])
    }

    @Test func aViewerIsResumed() {
        var driver = RoomDriver(publishes: false, at: .publishing)
        driver.handle(.peerConnected(.subscriber))
        _ = driver.takeActions()
        driver.server(leave(.resume))
        driver.reopen()
        let actions = driver.takeActions()
        #expect(actions.contains(where: isResumed))
        #expect(!actions.contains { if case .restartICE = $0 { true } else { false } })
    }
}
