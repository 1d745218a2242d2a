import DecartProtocol
import DecartSession
import Testing

@Suite("The machine: viewers", .timeLimit(.minutes(1)))
struct ViewerTests {
    private func driver(_ transport: TransportChoice, at phase: MachineDriver.Phase = .open) throws -> MachineDriver {
        try MachineDriver(prompt: nil, at: phase) { ($0.transport, $0.isViewer) = (transport, true) }
    }

    @Test func aDirectViewerOffersAndAsksForNothing() throws {
        var driver = try driver(.webrtc, at: .awaitingInitialAck)
        let id = driver.attempt
        #expect(
            driver.takeActions() == [
                .openChannel(id, .webrtc, timeout: .seconds(15)), .startMedia(id, .negotiate(relays: [])),
            ])
        driver.negotiate()
        #expect(driver.sent() == [.offer(sdp: "offer")])
        #expect(driver.state == .connected)
        // A viewer sends nothing, so the watchdog must not miss sent media.
        driver.wait(.seconds(60), flow: .nothing)
        #expect(driver.state == .connected)
    }

    @Test func aServiceThatSaysNothingIsOfferedAllTheSame() throws {
        var driver = try driver(.webrtc)
        #expect(!driver.startsMedia())
        driver.wait(.seconds(1))
        #expect(driver.startsMedia() && driver.sent().isEmpty)
    }

    @Test func aViewerInARoomOnlyJoins() throws {
        var driver = try driver(.livekit)
        driver.server(MachineDriver.roomInfo)
        let id = driver.attempt
        let start = MediaStart.room(url: "wss://room.example", token: Secret("t"))
        #expect(driver.takeActions() == [.openChannel(id, .livekit, timeout: .seconds(15)), .startMedia(id, start)])
        driver.media(.connected(ice: nil, dtls: nil))
        driver.wait(.seconds(120))
        #expect(driver.state == .connected && driver.sent().isEmpty)
        #expect(driver.snapshot.sessionID == "s")
    }

    @Test func promptsAreRefused() throws {
        var driver = try driver(.livekit, at: .idle)
        let early = try driver.update("lego")
        driver.walkToOpen()
        driver.joinRoom()
        let late = try driver.update("anime")
        #expect(driver.results().map(\.id) == [early, late])
        #expect(driver.results().allSatisfy { $0.error?.contains("viewer") == true })
        #expect(driver.sent().isEmpty)
    }

    /// The session that it showed is over: no failure.
    @Test(arguments: [true, false]) func anEndedSessionIsNoError(isKnown: Bool) throws {
        var driver = try driver(.livekit)
        if isKnown {
            driver.joinRoom()
            driver.media(.closedByPeer(SessionError(.webRTC, "The room closed the session.", stage: .media)))
            driver.wait(.seconds(1))
            #expect(driver.state == .reconnecting)
            driver.waitForRetry()
        }
        var gone = SessionError(.server, "gone", stage: .upgrade, isPermanent: true)
        gone.hasSessionEnded = true
        driver.handle(.channelFailed(driver.attempt, gone))
        #expect(driver.state == (isKnown ? .disconnected : .error) && driver.runningTimers.isEmpty)
        #expect(driver.failures().count == (isKnown ? 0 : 1))
        #expect(driver.actions.contains(.report(.sessionEnded(gone))) == isKnown)
    }

    @Test func theServicesWordEndsItToo() throws {
        var driver = try driver(.webrtc)
        driver.wait(.seconds(1))
        driver.negotiate()
        driver.handle(.channelClosed(driver.attempt, code: 1000, reason: ""))
        driver.waitForRetry()
        driver.open()
        driver.server(.error("Session not found", type: "session_not_found"))
        #expect(driver.state == .disconnected && driver.failures().isEmpty)
    }

    /// A session of one's own cannot end so.
    @Test func aPublisherFails() throws {
        var driver = try MachineDriver(at: .connected)
        driver.server(.error("Session not found", type: "session_not_found"))
        #expect(driver.state != .disconnected)
    }

    @Test func aLostSessionIsTriedAgainUntilTheAnswerIsClear() throws {
        var driver = try driver(.livekit)
        driver.joinRoom()
        driver.media(.failed(SessionError(.webRTC, "The session has ended.", stage: .media)))
        #expect(driver.state == .reconnecting)
        driver.waitForRetry()
        driver.handle(.channelFailed(driver.attempt, SessionError(.server, "gone", stage: .upgrade, isPermanent: true)))
        #expect(driver.state == .error && driver.failures().count == 1)
        #expect(driver.runningTimers.isEmpty)
    }
}
