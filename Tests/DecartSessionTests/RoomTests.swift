import DecartProtocol
import DecartSession
import Testing

@Suite("The machine: rooms", .timeLimit(.minutes(1)))
struct RoomTests {
    private let join = ClientMessage.livekitJoin(LiveKitJoin(passthrough: false))
    private let info = MachineDriver.roomInfo
    private let room = MediaStart.room(url: "wss://room.example", token: Secret("t"))
    private let direct = ServerMessage.sessionID(SessionIdentity(id: "s", serverIP: "10.0.0.1", serverPort: 80))
    private let ack = ServerMessage.promptAck(PromptAck(prompt: "Lego World", success: true))

    private func opened(
        _ transport: TransportChoice, prompt: String? = "Lego World", maximumRetries: Int? = 5
    ) throws -> MachineDriver {
        try MachineDriver(prompt: prompt, maximumRetries: maximumRetries, at: .open) { $0.transport = transport }
    }

    private func reopen(_ driver: inout MachineDriver) {
        driver.waitForRetry()
        _ = driver.takeActions()
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
    }

    // MARK: transport=livekit

    @Test(arguments: [nil, "Lego World"], [false, true])
    func passthroughIsRequested(prompt: String?, isAsked: Bool) throws {
        let driver = try MachineDriver(prompt: prompt, at: .open) {
            $0.transport = .livekit
            $0.requestsPassthrough = isAsked
        }
        let join = LiveKitJoin(passthrough: isAsked || prompt == nil)
        #expect(driver.actions.contains(.send(driver.attempt, .livekitJoin(join))))
        #expect(prompt == nil || driver.actions.contains(.send(driver.attempt, .text("Lego World"))))
    }

    /// Whatever the order of the two messages.
    @Test(arguments: [true, false]) func theTokenNamesTrailers(sessionIDComesLast: Bool) throws {
        var driver = try MachineDriver(at: .open) {
            $0.transport = .livekit
            $0.sendsFrameTiming = true
        }
        let messages: [ServerMessage] = [.sessionID(SessionIdentity(id: "s")), info]
        for message in sessionIDComesLast ? messages.reversed() : messages { driver.server(message) }
        #expect(driver.snapshot.subscribeToken == .room(name: "r", frameTiming: true))
    }

    @Test func wholeLifeInOrder() throws {
        var driver = try opened(.livekit)
        let id = driver.attempt
        // The initial state follows the join at once, without waiting for a status or an ack.
        #expect(
            driver.takeActions() == [
                .openChannel(id, .livekit, timeout: .seconds(15)), .send(id, join), .send(id, .text("Lego World")),
            ])
        driver.server(info)
        #expect(driver.takeActions() == [.startMedia(id, room)])
        #expect(driver.state == .connecting)
        #expect(driver.snapshot.sessionID == "s")
        #expect(driver.snapshot.subscribeToken == .room(name: "r"))
        #expect(driver.snapshot.transport == .livekit)

        driver.server(ack)
        #expect(driver.snapshot.phases.initialAck != nil)
        driver.media(.connected(ice: nil, dtls: nil))
        #expect(driver.state == .connected)
        // Neither a second initial state nor an offer is sent.
        #expect(driver.takeActions() == [])
        driver.server(.generationTick(seconds: 1))
        #expect(driver.state == .generating)
        driver.handle(.stop)
        #expect(driver.takeActions() == [.closeChannel(id), .stopMedia(id)])
        #expect(driver.runningTimers.isEmpty)
    }

    @Test func theRoomMayComeAfterTheAck() throws {
        var driver = try opened(.livekit)
        driver.server(ack)
        #expect(!driver.startsMedia())
        driver.server(info)
        #expect(driver.startsMedia())
        driver.server(info)
        #expect(driver.takeActions().count { if case .startMedia = $0 { true } else { false } } == 1)
    }

    @Test func passthroughWaitsForThePublishedTrack() throws {
        var driver = try opened(.livekit, prompt: nil)
        #expect(driver.sent() == [.livekitJoin(LiveKitJoin(passthrough: true))])
        driver.server(info)
        #expect(driver.sent().count == 1)
        driver.media(.connected(ice: nil, dtls: nil))
        #expect(driver.sent().last == .setImage(.passthrough))
        driver.server(.setImageAck(SetImageAck(success: true)))
        driver.wait(.seconds(60))
        #expect(driver.state == .connected)
    }

    @Test func aPromptInPlaceOfPassthroughDoesNotWait() throws {
        var driver = try opened(.livekit, prompt: nil)
        _ = driver.takeActions()
        try driver.update("Lego World")
        #expect(driver.sent() == [.text("Lego World")])
        driver.joinRoom()
        #expect(!driver.sent().contains(.setImage(.passthrough)))
    }

    @Test(arguments: [false, true]) func aRefusedInitialStateEndsTheSession(isConnected: Bool) throws {
        var driver = try opened(.livekit)
        driver.server(info)
        if isConnected { driver.media(.connected(ice: nil, dtls: nil)) }
        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: false, error: "No toys")))
        #expect(driver.state == .error)
        #expect(driver.failures().first?.stage == .initialState)
        #expect(driver.takeActions().contains(.stopMedia(driver.attempt)))
    }

    @Test func anInitialStateWithoutAckEndsTheAttempt() throws {
        var driver = try opened(.livekit)
        driver.joinRoom()
        driver.wait(.seconds(29))
        #expect(driver.state == .connected)
        driver.wait(.seconds(1))
        #expect(driver.state == .reconnecting)
    }

    @Test func noRoomIsATimeout() throws {
        var driver = try opened(.livekit, maximumRetries: 0)
        driver.wait(.milliseconds(14_999))
        #expect(driver.state == .connecting)
        driver.wait(.milliseconds(1))
        #expect(driver.failures().first?.code == .connectionTimeout)
    }

    @Test func noClockRunsInTheQueue() throws {
        var driver = try opened(.livekit)
        driver.server(.queuePosition(QueuePosition(position: 3)))
        driver.wait(.seconds(600))
        #expect(driver.state == .connecting)
        #expect(driver.snapshot.queue?.position == 3)
        _ = driver.takeActions()
        driver.server(.status("ready"))
        // A message sent before the queue may be lost, so it is sent again.
        #expect(driver.sent() == [.text("Lego World")])
        driver.wait(.seconds(14))
        driver.server(info)
        #expect(driver.startsMedia())
        // The room info ends the queue without a status message, so the ack timeout runs again.
        driver = try opened(.livekit)
        driver.server(.queuePosition(QueuePosition(position: 3)))
        driver.joinRoom()
        #expect(driver.snapshot.queue == nil)
        driver.wait(.seconds(30))
        #expect(driver.state == .reconnecting)
    }

    @Test func aRoomThatIsLostIsAskedForAgainWithTheLatestPrompt() throws {
        var driver = try opened(.livekit)
        driver.joinRoom()
        driver.server(ack)
        try driver.update("Moon")
        driver.server(.promptAck(PromptAck(prompt: "Moon", success: true)))
        driver.media(.failed(SessionError(.webRTC, "gone", stage: .media)))
        #expect(driver.state == .reconnecting)
        reopen(&driver)
        #expect(driver.sent() == [join, .text("Moon")])
    }

    @Test func aServiceWithoutRoomsIsNamed() throws {
        var driver = try opened(.livekit)
        driver.server(.error("unknown message livekit_join"))
        let error = try #require(driver.failures().first)
        #expect(error.isPermanent && error.message.contains("transport=webrtc"))
    }

    /// The service must find our track first.
    @Test func theServiceMayTakeItsTimeBeforeTheFirstFrame() throws {
        var driver = try opened(.livekit)
        driver.flow = .sending
        driver.joinRoom()
        driver.server(ack)
        driver.wait(.seconds(14))
        #expect(driver.state == .connected)
        driver.wait(.seconds(1), flow: .flowing)
        driver.wait(.seconds(14), flow: .sending)
        #expect(driver.state == .connected && driver.warnings().count == 1)
        driver.wait(.seconds(2))
        #expect(driver.state == .reconnecting)

        driver = try opened(.livekit)
        driver.flow = .sending
        driver.joinRoom()
        driver.server(ack)
        driver.wait(.seconds(16))
        #expect(driver.state == .reconnecting)
    }

    // MARK: transport=auto

    @Test func autoFollowsTheRoom() throws {
        var driver = try opened(.auto)
        #expect(driver.sent() == [join])
        #expect(driver.snapshot.transport == nil)
        driver.server(.status("ready"))
        #expect(driver.sent() == [join, .text("Lego World")])
        driver.server(info)
        #expect(driver.startsMedia())
        #expect(driver.snapshot.transport == .livekit)
    }

    @Test func autoFollowsTheRoomBeforeAnyStatus() throws {
        var driver = try opened(.auto)
        driver.server(info)
        #expect(
            driver.takeActions().suffix(2) == [
                .startMedia(driver.attempt, room), .send(driver.attempt, .text("Lego World")),
            ])
    }

    @Test(arguments: [0, 1, 2])
    func autoKnowsADirectServiceByItsWords(word: Int) throws {
        let words = [direct, .ready, .error("stand-in: no LIVEKIT_JOIN here")]
        for ackFirst in [false, true] {
            var driver = try opened(.auto)
            driver.server(.status("ready"))
            if ackFirst { driver.server(ack) }
            #expect(!driver.startsMedia())
            driver.server(words[word])
            if !ackFirst { driver.server(ack) }
            #expect(driver.takeActions().contains(.startMedia(driver.attempt, .negotiate(relays: []))))
            #expect(driver.snapshot.transport == .webrtc)
            #expect(driver.failures().isEmpty && driver.warnings().isEmpty)
            // The error reply to our join may come after the transport is decided.
            driver.server(.error("livekit_join is unknown"))
            driver.negotiate()
            #expect(driver.state == .connected)
        }
    }

    @Test func autoHoldsPassthroughUntilItKnows() throws {
        var driver = try opened(.auto, prompt: nil)
        driver.server(.status("ready"))
        #expect(driver.sent().count == 1)
        driver.server(direct)
        #expect(driver.sent().last == .setImage(.passthrough))
        driver.server(.setImageAck(SetImageAck(success: true)))
        #expect(driver.startsMedia())
    }

    @Test func silenceMeansADirectConnectionWithAFreshTimeout() throws {
        var driver = try opened(.auto, maximumRetries: 0)
        driver.server(.status("ready"))
        driver.server(ack)
        driver.wait(.milliseconds(14_999))
        #expect(!driver.startsMedia())
        driver.wait(.milliseconds(1))
        #expect(driver.startsMedia())
        driver.wait(.milliseconds(14_999))
        #expect(driver.state == .connecting)
        driver.negotiate()
        #expect(driver.state == .connected)
    }

    @Test func aRoomAfterSilenceCountsForTheNextAttempt() throws {
        var driver = try opened(.auto)
        driver.server(.status("ready"))
        driver.server(ack)
        driver.wait(.seconds(15))
        driver.server(info)
        driver.wait(.seconds(15))
        #expect(driver.state == .connecting)
        reopen(&driver)
        #expect(driver.snapshot.transport == .livekit)
        #expect(driver.sent() == [join, .text("Lego World")])
    }

    @Test func theDecisionIsKeptForReconnects() throws {
        var driver = try opened(.auto)
        driver.server(direct)
        driver.wait(.milliseconds(250))
        driver.server(ack)
        driver.negotiate()
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        reopen(&driver)
        driver.wait(.milliseconds(250))
        #expect(driver.sent() == [.text("Lego World")])

        driver = try opened(.auto)
        driver.joinRoom()
        driver.server(ack)
        driver.media(.failed(SessionError(.webRTC, "gone", stage: .media)))
        reopen(&driver)
        #expect(driver.sent() == [join, .text("Lego World")])
        // The service turns out to be an older one without rooms now.
        driver.server(.error("what is livekit_join?"))
        driver.server(ack)
        #expect(driver.takeActions().contains(.startMedia(driver.attempt, .negotiate(relays: []))))
    }

    // MARK: Transport known from other sessions

    private func knowing(_ path: MediaTransportKind, maximumRetries: Int? = 5) throws -> MachineDriver {
        var driver = try MachineDriver(maximumRetries: maximumRetries) {
            ($0.transport, $0.knownTransport) = (.auto, path)
        }
        driver.handle(.start)
        #expect(driver.actions.contains(.openChannel(driver.attempt, path, timeout: .seconds(15))))
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        return driver
    }

    private func detected(_ driver: MachineDriver) -> [MediaTransportKind?] {
        driver.actions.compactMap { if case .report(.transportDetected(let path)) = $0 { .some(path) } else { nil } }
    }

    @Test func whatIsLearntIsToldOnce() throws {
        var driver = try opened(.auto)
        driver.server(direct)
        driver.server(.ready)
        driver.server(ack)
        driver.negotiate()
        #expect(detected(driver) == [.webrtc])
        // A missing room counts as knowledge only once a connection succeeds.
        driver = try opened(.auto)
        driver.wait(.seconds(1))
        driver.server(ack)
        driver.wait(.seconds(15))
        #expect(detected(driver) == [])
        driver.negotiate()
        #expect(detected(driver) == [.webrtc])
        driver = try opened(.auto)
        driver.joinRoom()
        #expect(detected(driver) == [.livekit])
        for transport in [TransportChoice.livekit, .webrtc] {
            driver = try opened(transport)
            driver.server(info)
            driver.server(direct)
            #expect(detected(driver) == [])
        }
    }

    @Test func aKnownServiceIsAskedNothing() throws {
        var driver = try knowing(.webrtc)
        driver.server(direct)
        #expect(driver.sent() == [])
        driver.server(.status("ready"))
        #expect(driver.sent() == [.text("Lego World")])
        driver.server(ack)
        driver.negotiate()
        #expect(driver.state == .connected && detected(driver) == [])
        driver = try knowing(.livekit)
        #expect(driver.sent() == [join, .text("Lego World")])
    }

    /// The service has changed: its messages decide at once; without any, the next attempt detects the transport again.
    @Test func whatIsNoLongerSoIsForgotten() throws {
        for word in [direct, .ready, .error("no livekit_join here")] {
            var driver = try knowing(.livekit, maximumRetries: 0)
            driver.server(word)
            driver.server(ack)
            driver.negotiate()
            #expect(driver.state == .connected && detected(driver) == [.webrtc])
        }
        var driver = try knowing(.livekit)
        driver.server(ack)
        driver.wait(.seconds(15))
        #expect(detected(driver) == [nil])
        reopen(&driver)
        driver.server(direct)
        driver.wait(.milliseconds(250))
        driver.server(ack)
        driver.negotiate()
        #expect(driver.state == .connected && detected(driver) == [.webrtc])

        driver = try knowing(.webrtc)
        driver.server(.status("ready"))
        driver.server(ack)
        driver.server(.error("unexpected offer: ask for a room with livekit_join"))
        #expect(detected(driver) == [nil])
        reopen(&driver)
        #expect(driver.sent().first == join)
        driver.server(info)
        #expect(driver.startsMedia() && detected(driver) == [.livekit])
    }

    /// Knowledge stays if the service cannot be reached, or if it names a room and fails later.
    @Test func otherFailuresForgetNothing() throws {
        var driver = try MachineDriver(at: .opening) { ($0.transport, $0.knownTransport) = (.auto, .webrtc) }
        driver.handle(.channelFailed(driver.attempt, SessionError(.webSocket, "refused", stage: .connect)))
        #expect(detected(driver) == [])
        driver = try knowing(.livekit)
        driver.server(info)
        driver.media(.failed(SessionError(.webRTC, "gone", stage: .media)))
        #expect(detected(driver) == [])
    }

    @Test func otherErrorsAreStillErrors() throws {
        var driver = try opened(.auto)
        driver.server(.error("Invalid API key"))
        #expect(driver.failures().first?.code == .invalidAPIKey)
    }
}
