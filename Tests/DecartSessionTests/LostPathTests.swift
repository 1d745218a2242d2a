import DecartProtocol
import DecartSession
import Testing

/// A path that is lost: the attempt is suspended and the next one made beside it, and whichever delivers first stays.
@Suite(.timeLimit(.minutes(1)))
struct LostPathTests {
    private static let silent = SessionError(.webSocket, "no answer to a ping", stage: .channel)

    /// A connected session of which nothing arrives any more; returns its attempt.
    private func lose() throws -> (MachineDriver, AttemptID) {
        var driver = try MachineDriver.connected(for: .seconds(31)) { $0.keepsMediaWhileReconnecting = true }
        driver.wait(.seconds(2), flow: .sending)
        driver.media(.pathLost)
        #expect(driver.takeActions() == [.probeChannel(driver.attempt)])
        return (driver, driver.attempt)
    }

    private func lostAndDialling() throws -> (MachineDriver, AttemptID) {
        var (driver, old) = try lose()
        driver.wait(.seconds(4))
        #expect(driver.state == .reconnecting && driver.warnings().count == 1)
        driver.waitForRetry()
        #expect(driver.attempt != old)
        return (driver, old)
    }

    private func expectGoesOn(_ driver: inout MachineDriver, _ old: AttemptID, closes next: AttemptID?) {
        let actions = driver.takeActions()
        #expect(actions.contains { $0 == .closeChannel(old) || $0 == .stopMedia(old) } == false)
        if let next { #expect(actions.contains(.closeChannel(next))) }
        #expect(driver.state == .connected || driver.state == .generating)
        #expect(driver.failures().isEmpty)
        driver.flow.received = 12
        driver.wait(.seconds(60))
        #expect(driver.takeActions().isEmpty && driver.snapshot.retries == 0)
    }

    @Test func goesOnDuringTheBackOff() throws {
        var (driver, old) = try lose()
        driver.wait(.seconds(3))
        #expect(driver.state == .reconnecting && driver.opens() == 0)
        driver.handle(.media(old, .pathRecovered))
        // TCP retransmits later than media arrive.
        driver.handle(.channelSilent(old, Self.silent))
        expectGoesOn(&driver, old, closes: nil)
        driver.handle(.channelSilent(old, Self.silent))
        #expect(driver.state == .reconnecting)
        #expect(driver.opens() == 0)
    }

    /// A service needs a moment to send media again; the network's silence does not count against it.
    @Test func mediaAreDueAgainAfterTheRecovery() throws {
        var (driver, old) = try lose()
        driver.handle(.channelAnswered(old))
        #expect(driver.takeActions() == [.recover(old)])
        driver.wait(.seconds(2))
        driver.handle(.media(old, .pathRecovered))
        driver.wait(.seconds(4))
        #expect(driver.takeActions().isEmpty && driver.state == .connected)
        // From now on it is a stall on a path that carries packets.
        driver.wait(.seconds(10))
        #expect(driver.warnings().count == 1 && driver.state == .connected)
        driver.wait(.seconds(2))
        #expect(driver.state == .reconnecting)
    }

    /// Media arrive, and the path towards the service is dead: a restart of ICE that does not end the loss ends the attempt.
    @Test(arguments: [true, false]) func aRestartThatFails(isAnswered: Bool) throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.media(.pathLost)
        driver.handle(.channelAnswered(old))
        #expect(driver.takeActions() == [.probeChannel(old), .recover(old)])
        driver.media(.offer(sdp: "restart"))
        if isAnswered {
            driver.server(.answer(sdp: "answer"))
            driver.wait(.seconds(60))
            #expect(driver.state == .connected && driver.warnings().isEmpty)
            driver.media(.restartFailed)
        } else {
            driver.wait(.milliseconds(4999))
            #expect(driver.state == .connected && driver.warnings().isEmpty)
            driver.wait(.milliseconds(1))
        }
        #expect(driver.state == .reconnecting && driver.hasEnded(old) && driver.warnings().count == 1)
        #expect(driver.warnings().first?.message.contains("no other network path") == true)
    }

    /// A restart on a path that carries packets may fail: in a stall, or after the end of a loss.
    @Test func aRestartThatIsNotNeededMayFail() throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.media(.restartFailed)
        driver.media(.pathLost)
        driver.media(.pathRecovered)
        driver.media(.restartFailed)
        driver.wait(.seconds(60))
        #expect(driver.takeActions() == [.probeChannel(old)] && driver.state == .connected)
    }

    @Test func goesOnDuringTheDial() throws {
        var (driver, old) = try lostAndDialling()
        let next = driver.attempt
        driver.handle(.media(old, .pathRecovered))
        expectGoesOn(&driver, old, closes: next)
    }

    @Test func goesOnWithASampledFrame() throws {
        var (driver, old) = try lostAndDialling()
        let next = driver.attempt
        driver.wait(.seconds(1))
        driver.flow.received = 3
        driver.wait(.seconds(1))
        expectGoesOn(&driver, old, closes: next)
    }

    @Test func goesOnWhenTheNextChannelIsOpen() throws {
        var (driver, old) = try lostAndDialling()
        let next = driver.attempt
        driver.open()
        // Packets pass: those of the lost path get a moment before anything is sent on the new channel.
        #expect(driver.sent().isEmpty)
        driver.wait(.milliseconds(100))
        driver.handle(.media(old, .pathRecovered))
        expectGoesOn(&driver, old, closes: next)
    }

    @Test func theNextAttemptTakesOver() throws {
        var (driver, old) = try lostAndDialling()
        driver.open()
        driver.wait(.milliseconds(300))
        let actions = driver.actions
        #expect(actions.contains(.closeChannel(old)) && actions.contains(.stopMedia(old)))
        #expect(!driver.sent().isEmpty)
        driver.acknowledgeAll()
        driver.negotiate()
        driver.flow.received = 12
        #expect(driver.state == .connected)
        // The lost path has no say any more.
        _ = driver.takeActions()
        driver.handle(.media(old, .pathRecovered))
        driver.handle(.channelMessage(old, .generationTick(seconds: 1)))
        driver.handle(.channelClosed(old, code: 1000, reason: ""))
        #expect(driver.takeActions().isEmpty && driver.state == .connected)
    }

    @Test func aPromptDuringTheLossGoesOutAfterIt() throws {
        var (driver, old) = try lostAndDialling()
        try driver.update("noir")
        #expect(driver.sent().isEmpty)
        driver.handle(.media(old, .pathRecovered))
        #expect(driver.actions.contains(.send(old, .text("noir"))))
    }

    @Test func theSuspensionEnds() throws {
        var (driver, old) = try lose()
        driver.wait(.seconds(4))
        driver.wait(.seconds(15))
        #expect(driver.hasEnded(old))
        #expect(driver.runningTimers.contains(.mediaSample(old)) == false)
    }

    @Test func stoppingEndsBoth() throws {
        var (driver, old) = try lostAndDialling()
        driver.handle(.stop)
        #expect(driver.hasEnded(old))
        #expect(driver.runningTimers.isEmpty && driver.state == .disconnected)
    }

    @Test func aSilentChannelAlone() throws {
        // Media flow, messages do not: the channel is dead, and stays open as long as the media flow.
        var driver = try MachineDriver(at: .connected) { $0.keepsMediaWhileReconnecting = true }
        driver.wait(.seconds(5))
        let old = driver.attempt
        driver.handle(.channelSilent(old, Self.silent))
        #expect(!driver.actions.contains(.closeChannel(old)) && driver.state == .reconnecting)
        driver.handle(.media(old, .failed(SessionError(.webRTC, "consent", stage: .media))))
        #expect(driver.hasEnded(old))
        // Neither: the path is lost, and the channel stays open.
        (driver, _) = try lose()
        driver.handle(.channelSilent(driver.attempt, Self.silent))
        #expect(driver.takeActions().contains(.closeChannel(driver.attempt)) == false)
        #expect(driver.state == .reconnecting)
    }

    // MARK: ICE restart

    @Test func restartsWhereTheChannelAnswers() throws {
        var (driver, attempt) = try lose()
        driver.handle(.channelAnswered(attempt))
        driver.handle(.channelAnswered(attempt))
        #expect(driver.takeActions() == [.recover(attempt)])
        driver.media(.offer(sdp: "restart"))
        #expect(driver.takeActions() == [.send(attempt, .offer(sdp: "restart"))])
        driver.server(.answer(sdp: "answer"))
        #expect(driver.takeActions() == [.applyAnswer(attempt, sdp: "answer")])
        driver.media(.pathRecovered)
        driver.flow.received = 12
        driver.wait(.seconds(60))
        #expect(driver.takeActions().isEmpty && driver.snapshot.retries == 0)
    }

    @Test func aRestartThatDoesNotHelpEndsTheAttempt() throws {
        var (driver, attempt) = try lose()
        driver.handle(.channelAnswered(attempt))
        driver.wait(.seconds(4))
        #expect(driver.hasEnded(attempt))
        #expect(driver.state == .reconnecting)
    }

    @Test func noRestartForAnAnswerAfterTheRecovery() throws {
        var (driver, attempt) = try lose()
        driver.media(.pathRecovered)
        driver.handle(.channelAnswered(attempt))
        #expect(driver.takeActions().isEmpty)
    }

    @Test func messagesWithoutMediaRestartASuspendedAttempt() throws {
        var (driver, old) = try lostAndDialling()
        _ = driver.takeActions()
        driver.handle(.channelMessage(old, .generationTick(seconds: 9)))
        #expect(driver.takeActions().contains(.recover(old)) && driver.attempt != old)
    }

    // MARK: Addresses

    @Test func anotherAddressBeginsAtOnce() throws {
        var driver = try MachineDriver(at: .connected) { $0.keepsMediaWhileReconnecting = true }
        driver.wait(.seconds(5))
        let old = driver.attempt
        let before = driver.now
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.attempt == old && driver.state == .connected)
        driver.handle(.networkChanged(lost: old))
        driver.waitForRetry()
        #expect(driver.now == before && driver.attempt != old)
        // Nothing can arrive on the lost address, so the next attempt does not wait for it.
        driver.open()
        #expect(driver.actions.contains(.stopMedia(old)) && !driver.sent().isEmpty)
    }

    @Test func aChangeEndsTheBackOff() throws {
        var driver = try MachineDriver(maximumRetries: nil, at: .connected)
        driver.handle(.channelFailed(driver.attempt, Self.silent))
        let opens = driver.opens()
        for count in 1...10 {
            driver.handle(.networkChanged(lost: nil))
            #expect(driver.opens() == opens + min(count, 5))
            driver.handle(.channelFailed(driver.attempt, Self.silent))
        }
        // Another start permits as many again, and so does a stable connection.
        driver.handle(.stop)
        driver.walkToConnected()
        driver.handle(.channelFailed(driver.attempt, Self.silent))
        let started = driver.opens()
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.opens() == started + 1)
        driver.handle(.channelFailed(driver.attempt, Self.silent))
        driver.redial()
        driver.wait(.seconds(31))
        driver.handle(.channelFailed(driver.attempt, Self.silent))
        let before = driver.opens()
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.opens() == before + 1)
        // Retry-After holds.
        driver = try MachineDriver(at: .connected)
        var busy = Self.silent
        busy.retryAfter = .seconds(6)
        driver.handle(.channelFailed(driver.attempt, busy))
        let dials = driver.opens()
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.opens() == dials)
    }

    @Test func aChangeRepeatsADialThatHangs() throws {
        var driver = try MachineDriver(at: .connected)
        driver.handle(.channelFailed(driver.attempt, Self.silent))
        driver.waitForRetry()
        let dial = driver.attempt
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.attempt == dial)
        driver.wait(.seconds(2))
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.attempt != dial && driver.actions.contains(.closeChannel(dial)))
    }

    // MARK: What belongs to an attempt

    /// The attempt that continues is the session again with all that was known of it.
    @Test func aResumedAttemptKeepsItsOwnState() throws {
        var driver = try MachineDriver(at: .opening) { $0.keepsMediaWhileReconnecting = true }
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.reconnect()
        driver.server(.sessionID(SessionIdentity(id: "first")))
        driver.wait(.seconds(24))
        let old = driver.attempt
        driver.flow.received = 0
        driver.media(.pathLost)
        driver.wait(.seconds(7))
        #expect(driver.attempt != old && driver.snapshot.identity == nil && driver.snapshot.granted == nil)
        driver.handle(.media(old, .pathRecovered))
        #expect(driver.snapshot.sessionID == "first" && driver.snapshot.granted == .seconds(60))
        #expect(driver.snapshot.lastError == nil && driver.snapshot.retries == 1)
        // The service's clock has not stopped, and the end is announced late, because its time was during the loss.
        #expect(SessionLimitTests.endings(driver).map { $0 > .seconds(20) && $0 < .seconds(30) } == [true])
        driver.flow.received = 12
        driver.wait(.seconds(60) - driver.now)
        #expect(driver.state == .error)
    }
}
