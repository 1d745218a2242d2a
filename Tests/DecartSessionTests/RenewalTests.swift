import DecartProtocol
import DecartSession
import Testing

@Suite("Renewal of a session before its end", .timeLimit(.minutes(1)))
struct RenewalTests {
    private static let full = SessionError(.concurrencyLimit, "Concurrent session limit reached.", stage: .initialState)
    private static let broken = SessionError(.network, "Unreachable.", stage: .connect)
    private static let refused = SessionError(.invalidAPIKey, "The key is wrong.", stage: .upgrade, isPermanent: true)

    /// A machine that is connected for a session of that length.
    private func connected(
        _ seconds: Int? = 60, before: Int = 10, change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> MachineDriver {
        var driver = try granted(seconds, before: before, change: change)
        _ = driver.takeActions()
        return driver
    }

    private func granted(
        _ seconds: Int?, before: Int = 10, change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> MachineDriver {
        var driver = try MachineDriver {
            $0.renewBefore = .seconds(before)
            $0.keepsMediaWhileReconnecting = true
            change(&$0)
        }
        driver.handle(.start)
        driver.handle(.grant(driver.attempt, seconds.map { .seconds($0) }))
        driver.reconnect()
        return driver
    }

    /// Waits for the renewal; returns the running attempt.
    private func begin(_ driver: inout MachineDriver, after seconds: Int = 50) -> AttemptID {
        let running = driver.attempt
        driver.wait(.seconds(seconds))
        return running
    }

    private enum Step: Int { case opening, open, acknowledged, connected }

    /// A machine whose successor has come to this step, and the running attempt.
    private func renewing(to step: Step = .opening) throws -> (MachineDriver, AttemptID) {
        var driver = try connected()
        let running = begin(&driver)
        if step.rawValue >= Step.open.rawValue { grantAndOpen(&driver) }
        if step.rawValue >= Step.acknowledged.rawValue { driver.acknowledgeAll() }
        if step == .connected { driver.connectMedia() }
        return (driver, running)
    }

    private func grantAndOpen(_ driver: inout MachineDriver) {
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.open()
    }

    /// Up to the successor's connected media path, which shows no frame yet.
    private func grantAndConnect(_ driver: inout MachineDriver) {
        grantAndOpen(&driver)
        driver.acknowledgeAll()
        driver.connectMedia()
    }

    private func renewals(_ driver: MachineDriver) -> Int {
        driver.actions.count { if case .report(.renewed) = $0 { true } else { false } }
    }

    // MARK: The way it should go

    @Test func theNextSessionTakesOverWithItsFirstFrame() throws {
        var driver = try connected()
        driver.wait(.seconds(49))
        #expect(driver.opens() == 0)
        for round in 1...10 {
            _ = driver.takeActions()
            let old = begin(&driver, after: round == 1 ? 1 : 50)
            #expect(driver.opens() == 1 && driver.attempt != old)
            #expect(driver.state == .connected)
            grantAndConnect(&driver)
            driver.server(.sessionID(SessionIdentity(id: "session \(round)")))
            // The running session is the session until the next one shows a frame.
            #expect(!driver.actions.contains(.closeChannel(old)) && driver.snapshot.sessionID != "session \(round)")
            driver.media(.firstFrame)
            #expect(driver.hasEnded(old))
            #expect(driver.snapshot.sessionID == "session \(round)" && driver.state == .connected)
            #expect(driver.snapshot.granted == .seconds(60) && driver.snapshot.retries == 0)
            #expect(renewals(driver) == 1)
            #expect(driver.warnings().isEmpty && driver.failures().isEmpty)
            #expect(SessionLimitTests.endings(driver).isEmpty)
        }
        driver.handle(.stop)
        #expect(driver.runningTimers.isEmpty)
    }

    /// While we send nothing, no frame comes that could mark the takeover.
    @Test(arguments: [true, false])
    func aMutedSessionIsReplacedOnceTheNextIsConnected(fromTheStart: Bool) throws {
        var driver = try connected()
        if fromTheStart { driver.handle(.mute(true)) }
        let old = begin(&driver)
        grantAndConnect(&driver)
        #expect(driver.actions.contains(.closeChannel(old)) == fromTheStart)
        if !fromTheStart { driver.handle(.mute(true)) }
        #expect(driver.hasEnded(old))
        #expect(renewals(driver) == 1 && driver.warnings().isEmpty)
    }

    @Test func aShortSessionIsRenewedAtItsHalf() throws {
        var driver = try connected(80, before: 70)
        driver.wait(.seconds(39.9))
        #expect(driver.opens() == 0)
        driver.wait(.seconds(0.2))
        #expect(driver.opens() == 1 && driver.warnings().isEmpty)
    }

    /// Each session is billed, and the service chooses its length.
    @Test(arguments: [1, 2, 3]) func verySmallSessionsDoNotBeginOneAfterTheOther(seconds: Int) throws {
        var driver = try granted(seconds)
        #expect(driver.warnings().map(\.stage) == [.generation])
        _ = driver.takeActions()
        driver.wait(.seconds(1.9))
        #expect(driver.opens() == 0 && driver.failures().isEmpty)
        driver.wait(.seconds(2))
        #expect(driver.opens() == 1)
    }

    /// A service that grants short sessions for ever: a few follow each other, and then one begins every 30 s.
    @Test(arguments: [1, 3, 5, 20, 29]) func shortSessionsAreBounded(seconds: Int) throws {
        var driver = try granted(seconds)
        var dials = [driver.now]
        while driver.now < .seconds(900) {
            let before = driver.attempt
            driver.wait(.milliseconds(250))
            guard driver.attempt != before else { continue }
            dials.append(driver.now)
            driver.handle(.grant(driver.attempt, .seconds(seconds)))
            driver.reconnect()
        }
        #expect(driver.failures().isEmpty && driver.state.isInSession)
        #expect(dials.count >= 25 && dials.count <= 1 + 4 + 900 / 30, "\(dials.count)")
        let waits = zip(dials, dials.dropFirst()).map { $1 - $0 }
        #expect(waits.allSatisfy { $0 >= .seconds(2) })
        #expect(waits.suffix(20).allSatisfy { $0 >= .seconds(29.5) }, "\(waits)")
        #expect(driver.warnings().filter { $0.message.contains("at most every 30 s") }.count == 1)
    }

    @Test(arguments: [(nil, 10, false), (60, 0, false), (60, 10, true)])
    func otherSessionsAreNotRenewed(seconds: Int?, before: Int, isViewer: Bool) throws {
        var driver = try connected(seconds, before: before) { if isViewer { $0.renewBefore = .zero } }
        driver.wait(.seconds(59))
        #expect(driver.opens() == 0)
    }

    @Test func aSuccessorMayUseARoom() throws {
        var driver = try connected { $0.transport = .livekit }
        #expect(driver.state == .connecting)
        driver.server(.livekitRoomInfo(LiveKitRoomInfo(url: "ws://x", token: Secret("t"), roomName: "a")))
        driver.media(.connected(ice: nil, dtls: nil))
        driver.media(.firstFrame)
        let old = begin(&driver)
        grantAndOpen(&driver)
        driver.server(.livekitRoomInfo(LiveKitRoomInfo(url: "ws://x", token: Secret("t"), roomName: "b")))
        driver.media(.firstFrame)
        #expect(!driver.actions.contains(.closeChannel(old)))
        driver.acknowledgeAll()
        driver.media(.connected(ice: nil, dtls: nil))
        #expect(driver.actions.contains(.closeChannel(old)) && driver.snapshot.sessionID == "b")
    }

    // MARK: Prompts

    /// The order of the three events: acknowledged by the running session, by its successor, and the takeover.
    @Test(
        arguments: [["old", "new", "over"], ["new", "over"], ["over", "new"], ["old", "over", "new"]], [true, false])
    func aRequestGetsOneResult(order: [String], startsBefore: Bool) throws {
        var driver = try connected()
        var request: RequestID = 0
        if startsBefore {
            driver.wait(.seconds(49))
            request = try driver.update("Noir")
        }
        let old = begin(&driver, after: startsBefore ? 1 : 50)
        grantAndOpen(&driver)
        if !startsBefore { request = try driver.update("Noir") }
        #expect(driver.actions.contains(.send(old, .text("Noir"))))
        #expect(driver.sent().last == .text("Noir"), "the successor misses the request")
        let ack = ServerMessage.promptAck(PromptAck(prompt: "Noir", success: true))
        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: true)))
        for event in order {
            switch event {
            case "old": driver.handle(.channelMessage(old, ack))
            case "new": driver.server(ack)
            default:
                // A direct connection is offered after the acknowledgement of the initial state.
                if startsBefore, order.first != "new", order != ["old", "new", "over"] { driver.server(ack) }
                driver.negotiate()
            }
        }
        driver.wait(.seconds(20))
        #expect(driver.results().map(\.id) == [request])
        #expect(driver.results().allSatisfy { $0.isAccepted })
        #expect(driver.machine.wantedContent.prompt?.text == "Noir")
        #expect(renewals(driver) == 1 && driver.warnings().isEmpty)
    }

    @Test func aRefusedRequestDoesNotEndTheRenewal() throws {
        var (driver, old) = try renewing(to: .open)
        let request = try driver.update("refuse-me")
        let refusal = ServerMessage.promptAck(PromptAck(prompt: "refuse-me", success: false, error: "no"))
        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: true)))
        driver.server(refusal)
        driver.handle(.channelMessage(old, refusal))
        driver.negotiate()
        #expect(driver.results().map(\.id) == [request] && renewals(driver) == 1)
        #expect(driver.machine.wantedContent.prompt?.text == "Lego World")
    }

    @Test func aLossAfterTheTakeoverReplaysTheLatestPrompt() throws {
        var (driver, old) = try renewing(to: .acknowledged)
        try driver.update("Noir")
        driver.handle(.channelMessage(old, .promptAck(PromptAck(prompt: "Noir", success: true))))
        driver.negotiate()
        driver.handle(.channelClosed(driver.attempt, code: 1006, reason: ""))
        _ = driver.takeActions()
        driver.waitForRetry()
        driver.open()
        #expect(driver.sent() == [.text("Noir")])
    }

    // MARK: Losses in the overlap

    @Test(arguments: [false, true]) func theSuccessorTakesThePlaceOfALostSession(isConnected: Bool) throws {
        var (driver, old) = try renewing(to: .acknowledged)
        if isConnected { driver.connectMedia() }
        driver.handle(.channelClosed(old, code: 1006, reason: ""))
        #expect(driver.state == (isConnected ? .connected : .reconnecting))
        // Its media path shows frames until the successor does.
        #expect(!driver.actions.contains(.stopMedia(old)))
        #expect(driver.warnings().count == 1 && driver.failures().isEmpty && driver.opens() == 1)
        if !isConnected { driver.negotiate() } else { driver.media(.firstFrame) }
        #expect(driver.actions.contains(.stopMedia(old)))
        #expect(driver.state == .connected && driver.opens() == 1)
        // The time of the new session counts from its own connection.
        driver.wait(.seconds(49))
        #expect(driver.opens() == 1)
        driver.wait(.seconds(2))
        #expect(driver.opens() == 2)
    }

    @Test(arguments: [true, false]) func anEndThatComesFirstIsNoError(byTheService: Bool) throws {
        var (driver, old) = try renewing()
        // The successor waits in the queue beyond the end.
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        driver.server(.queuePosition(QueuePosition(position: 3, size: 9)))
        #expect(driver.snapshot.queue == nil && driver.state == .connected)
        driver.wait(.seconds(byTheService ? 8 : 10))
        if byTheService { driver.handle(.channelClosed(old, code: 1000, reason: "session limit")) }
        #expect(driver.state == .reconnecting && driver.snapshot.queue?.position == 3)
        #expect(driver.warnings().isEmpty && driver.failures().isEmpty)
        driver.wait(.seconds(100))
        driver.server(.ready)
        driver.acknowledgeAll()
        driver.negotiate()
        #expect(driver.state == .connected && driver.opens() == 1)
    }

    @Test func aFailedRenewalLeavesTheSessionAlone() throws {
        var (driver, old) = try renewing()
        driver.handle(.channelFailed(driver.attempt, Self.broken))
        #expect(driver.state == .connected && driver.failures().isEmpty)
        #expect(driver.warnings().count == 1)
        #expect(driver.warnings().last?.message.hasPrefix("Unreachable. The session was not renewed yet") == true)
        #expect(!driver.actions.contains(.closeChannel(old)) && SessionLimitTests.endings(driver).isEmpty)
        // Half of the time that is left, and half of the rest.
        driver.wait(.seconds(5))
        #expect(driver.opens() == 2)
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.reconnect()
        #expect(renewals(driver) == 1 && driver.snapshot.lastError == nil && driver.state == .connected)
    }

    /// A service or a source of keys that is away at the end costs a reconnect, and not the session.
    @Test func aRenewalThatFailsUntilTheEndBecomesAReconnect() throws {
        var (driver, old) = try renewing()
        var tries = 0
        while driver.state == .connected {
            tries += 1
            driver.handle(.channelFailed(driver.attempt, Self.broken))
            #expect(!driver.actions.contains(.closeChannel(old)))
            let attempt = driver.attempt
            while driver.attempt == attempt { driver.wait(.milliseconds(50)) }
        }
        #expect(tries == 4 && driver.now < .seconds(61) && driver.failures().isEmpty)
        #expect(driver.warnings().last?.message.contains("a new one replaces it in 1 s") == true)
        #expect(SessionLimitTests.endings(driver).isEmpty && driver.state == .reconnecting)
        driver.handle(.channelFailed(driver.attempt, Self.broken))
        #expect(driver.state == .reconnecting && driver.snapshot.retries == 1)
        driver.redial()
        #expect(driver.state == .connected && driver.failures().isEmpty)
    }

    /// Connects, and then fails before the first frame.
    @Test func aSuccessorMayFailLate() throws {
        var (driver, old) = try renewing(to: .connected)
        let next = driver.attempt
        driver.media(.failed(SessionError(.webRTC, "ICE failed.", stage: .media)))
        #expect(driver.hasEnded(next))
        #expect(driver.state == .connected && !driver.actions.contains(.closeChannel(old)))
        try driver.update("Noir")
        driver.handle(.channelMessage(old, .promptAck(PromptAck(prompt: "Noir", success: true))))
        #expect(driver.results().count == 1)
    }

    /// The output drops frames of the running session once it has shown one of the next: neither can continue.
    @Test func aSuccessorThatFailsAfterAFrameIsALoss() throws {
        var driver = try connected { $0.transport = .livekit }
        driver.server(.livekitRoomInfo(LiveKitRoomInfo(url: "ws://x", token: Secret("t"), roomName: "a")))
        driver.media(.connected(ice: nil, dtls: nil))
        let old = begin(&driver)
        grantAndOpen(&driver)
        driver.server(.livekitRoomInfo(LiveKitRoomInfo(url: "ws://x", token: Secret("t"), roomName: "b")))
        driver.media(.firstFrame)
        driver.media(.failed(SessionError(.webRTC, "ICE failed.", stage: .media, isPermanent: true)))
        #expect(driver.hasEnded(old))
        #expect(driver.state == .reconnecting && driver.snapshot.retries == 1)
        driver.waitForRetry()
        #expect(driver.opens() == 2)
    }

    /// A candidate is never suspended: the running session continues.
    @Test func aLostAddressEndsTheSuccessorAlone() throws {
        var (driver, old) = try renewing(to: .connected)
        let next = driver.attempt
        driver.handle(.networkChanged(lost: next))
        #expect(driver.hasEnded(next))
        #expect(!driver.actions.contains(.closeChannel(old)) && driver.state == .connected)
        #expect(driver.warnings().count == 1 && !driver.runningTimers.contains(.suspension(next)))
    }

    /// The newest attempt that shows a frame ends all older ones: the running one and one that lingers beside it.
    @Test func theSuccessorEndsAllOlderAttempts() throws {
        var driver = try connected()
        let first = driver.attempt
        driver.handle(.channelClosed(first, code: 1006, reason: ""))
        driver.waitForRetry()
        grantAndConnect(&driver)
        let second = begin(&driver)
        #expect(driver.attempt != second && !driver.actions.contains(.stopMedia(first)))
        grantAndConnect(&driver)
        driver.media(.firstFrame)
        for id in [first, second] {
            #expect(driver.hasEnded(id))
        }
        #expect(renewals(driver) == 1 && driver.state == .connected)
    }

    @Test func aRefusedRenewalLetsTheSessionEndAsBefore() throws {
        var (driver, _) = try renewing()
        driver.handle(.channelFailed(driver.attempt, Self.refused))
        #expect(driver.warnings().last?.code == .invalidAPIKey && driver.warnings().last?.isPermanent == false)
        #expect(driver.warnings().last?.message.contains("ends in 10 s") == true)
        // The end is announced now.
        #expect(SessionLimitTests.endings(driver) == [.seconds(10)])
        driver.wait(.seconds(9))
        #expect(driver.state == .connected && driver.opens() == 1)
        driver.wait(.seconds(1))
        #expect(driver.state == .error)
        #expect(driver.failures().first?.message.hasPrefix("Session expired") == true)
        #expect(driver.runningTimers.isEmpty)
    }

    @Test func aStopEndsBothSessions() throws {
        var (driver, old) = try renewing(to: .acknowledged)
        let request = try driver.update("Noir")
        let next = driver.attempt
        driver.handle(.stop)
        for id in [old, next] {
            #expect(driver.hasEnded(id))
        }
        #expect(driver.results().map(\.id) == [request] && driver.failures().isEmpty)
        #expect(driver.state == .disconnected && driver.runningTimers.isEmpty)
        driver.handle(.media(next, .firstFrame))
        #expect(driver.state == .disconnected)
        driver.handle(.start)
        #expect(driver.state == .connecting)
    }

    // MARK: Limits

    @Test(arguments: [true, false]) func breakBeforeMakeWhereOneSessionIsAllowed(endsByTheService: Bool) throws {
        var (driver, old) = try renewing()
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        driver.server(.error("Concurrent session limit reached"))
        #expect(driver.state == .connected && driver.warnings().last?.code == .concurrencyLimit)
        #expect(driver.warnings().last?.message.contains("replaces it in 10 s") == true)
        #expect(!driver.actions.contains(.closeChannel(old)) && SessionLimitTests.endings(driver).isEmpty)
        driver.wait(.seconds(9))
        #expect(driver.opens() == 1)
        if endsByTheService {
            driver.handle(.channelClosed(old, code: 1000, reason: "session limit"))
        } else {
            driver.wait(.seconds(1))
        }
        #expect(driver.actions.contains(.closeChannel(old)))
        #expect(driver.opens() == 2 && driver.state == .reconnecting)
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.reconnect()
        #expect(driver.state == .connected && driver.failures().isEmpty && driver.warnings().count == 1)
        driver.wait(.seconds(50))
        #expect(driver.opens() == 3)
    }

    /// The dial that met the limit counts: the next one follows 5 s later.
    @Test func theReplacementKeepsThePace() throws {
        var driver = try connected(60, before: 3)
        driver.wait(.seconds(57))
        driver.handle(.channelFailed(driver.attempt, Self.full))
        driver.wait(.seconds(4))
        #expect(driver.opens() == 1 && driver.state == .reconnecting)
        driver.wait(.seconds(1))
        #expect(driver.opens() == 2)
    }

    /// The service asks for a longer one.
    @Test func theReplacementWaitsAsRequested() throws {
        var driver = try connected(60, before: 3)
        driver.wait(.seconds(57))
        driver.open()
        driver.server(.error("Please wait.", type: "capacity", retryAfter: 20))
        driver.wait(.seconds(19))
        #expect(driver.opens() == 1 && driver.state == .reconnecting)
        driver.wait(.seconds(1))
        #expect(driver.opens() == 2)
    }

    @Test func theUsersLimitBoundsTheWhole() throws {
        var driver = try connected { $0.maximumDuration = .seconds(100) }
        _ = begin(&driver)
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.reconnect()
        _ = driver.takeActions()
        // The second session would last until 110 s.
        driver.wait(.seconds(49))
        #expect(driver.opens() == 0 && driver.state == .connected)
        #expect(SessionLimitTests.endings(driver) == [.seconds(30)])
        driver.wait(.seconds(1))
        #expect(driver.state == .error && driver.failures().count == 1)
        var extended = try connected { $0.maximumDuration = .seconds(55) }
        extended.wait(.seconds(51))
        #expect(extended.opens() == 0)
        extended.handle(.extend(by: .seconds(100)))
        extended.wait(.zero)
        #expect(extended.opens() == 1)
        // The limit ends the successor too.
        extended.handle(.limit(.seconds(52)))
        extended.wait(.seconds(1))
        #expect(extended.state == .error && extended.runningTimers.isEmpty)
        #expect(extended.actions.contains(.closeChannel(extended.attempt)))
    }
}
