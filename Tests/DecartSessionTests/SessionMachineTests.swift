import DecartProtocol
import DecartSession
import Testing

@Suite("The machine: one session", .timeLimit(.minutes(1)))
struct SessionMachineTests {
    @Test func wholeLifeInOrder() throws {
        var driver = try MachineDriver()
        #expect(driver.state == .idle)
        driver.handle(.start)
        #expect(driver.state == .connecting && driver.snapshot.transport == .webrtc)
        #expect(driver.takeActions() == [.openChannel(AttemptID(1), .webrtc, timeout: .seconds(15))])

        driver.handle(.channelOpened(AttemptID(1), transport: .milliseconds(20), upgrade: .milliseconds(10)))
        // Nothing is sent before the status shows whether there is a queue.
        #expect(driver.takeActions() == [])
        driver.server(.status("Service ready"))
        #expect(driver.snapshot.serviceStatus == .ready)
        #expect(driver.takeActions() == [.send(AttemptID(1), .text("Lego World"))])

        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: true)))
        #expect(driver.takeActions() == [.startMedia(AttemptID(1), .negotiate(relays: []))])
        #expect(driver.state == .connecting)

        driver.media(.offer(sdp: "our offer"))
        driver.media(.candidate(CandidateMessage(candidate: "candidate:1")))
        driver.server(.sessionID(SessionIdentity(id: "s1", serverIP: "10.0.0.1", serverPort: 80)))
        driver.server(.answer(sdp: "their answer"))
        driver.server(.iceCandidate(CandidateMessage(candidate: "candidate:2")))
        driver.server(.iceCandidate(nil))
        driver.server(.iceCandidate(CandidateMessage(candidate: "")))
        #expect(
            driver.takeActions() == [
                .send(AttemptID(1), .offer(sdp: "our offer")),
                .send(AttemptID(1), .iceCandidate(CandidateMessage(candidate: "candidate:1"))),
                .applyAnswer(AttemptID(1), sdp: "their answer"),
                .applyCandidate(AttemptID(1), CandidateMessage(candidate: "candidate:2")),
                .applyCandidate(AttemptID(1), nil),
                .applyCandidate(AttemptID(1), nil),
            ])
        #expect(driver.snapshot.sessionID == "s1")

        driver.media(.connected(ice: .milliseconds(3), dtls: .milliseconds(4)))
        #expect(driver.state == .connected)
        driver.server(.generationStarted)
        #expect(driver.state == .generating)
        driver.server(.generationTick(seconds: 12))
        #expect(driver.snapshot.generationSeconds == 12)
        driver.media(.firstFrame)

        let phases = driver.snapshot.phases
        #expect(phases.transport == .milliseconds(20) && phases.upgrade == .milliseconds(10))
        #expect(phases.ice == .milliseconds(3) && phases.dtls == .milliseconds(4))
        #expect(phases.firstFrame != nil && phases.initialAck != nil && phases.connected != nil)

        _ = driver.takeActions()
        driver.handle(.stop)
        #expect(driver.state == .disconnected)
        #expect(driver.takeActions() == [.closeChannel(AttemptID(1)), .stopMedia(AttemptID(1))])
        #expect(driver.runningTimers.isEmpty)
    }

    @Test func aSilentServiceGetsTheInitialStateAfter250Milliseconds() throws {
        var driver = try MachineDriver(at: .open)
        driver.wait(.milliseconds(249))
        #expect(driver.sent() == [])
        driver.wait(.milliseconds(1))
        #expect(driver.sent() == [.text("Lego World")])
    }

    @Test func aServerThatSaysNothingIsNamedSoon() throws {
        var driver = try MachineDriver(at: .open)
        driver.wait(.milliseconds(4999))
        #expect(driver.warnings().isEmpty)
        driver.wait(.milliseconds(1))
        #expect(driver.warnings().map(\.code) == [.connectionTimeout])
        #expect(driver.warnings().first?.message.contains("sent no message for 5 s") == true)
        // The attempt goes on.
        #expect(driver.opens() == 1)
        driver.acknowledgeAll()
        #expect(driver.startsMedia())
        driver.wait(.seconds(10))
        #expect(driver.warnings().count == 1)
    }

    @Test(arguments: ["status", "malformed", "viewer"])
    func aServerThatSaysAnythingIsNotNamed(case name: String) throws {
        var driver = try MachineDriver(at: .open) { $0.isViewer = name == "viewer" }
        switch name {
        case "status": driver.server(.status("Service starting"))
        case "malformed": driver.handle(.channelMalformed(driver.attempt, reason: "no JSON"))
        default: break
        }
        driver.wait(.seconds(10))
        #expect(driver.warnings().isEmpty)
    }

    @Test func olderServersSayReady() throws {
        var driver = try MachineDriver(at: .open)
        driver.server(.ready)
        #expect(driver.sent() == [.text("Lego World")])
    }

    @Test func initialStates() throws {
        let image = try testImage()
        let data = SetImageMessage.Image.data(base64: image.base64)
        var driver = try MachineDriver(prompt: nil, at: .awaitingInitialAck)
        #expect(driver.sent() == [.setImage(.passthrough)])

        driver = try MachineDriver(prompt: "", at: .awaitingInitialAck)
        #expect(driver.sent() == [.setImage(.passthrough)])

        driver = try MachineDriver(prompt: "x", image: image, at: .awaitingInitialAck)
        #expect(driver.sent() == [.setImage(SetImageMessage(image: data, text: .prompt("x"), enhance: false))])

        driver = try MachineDriver(prompt: nil, image: image, at: .awaitingInitialAck)
        #expect(driver.sent() == [.setImage(SetImageMessage(image: data, text: .none))])
        driver.server(.setImageAck(SetImageAck(success: true)))
        #expect(driver.startsMedia())
    }

    @Test func refusedInitialStateMeansNoOffer() throws {
        for (message, code) in [
            (
                ServerMessage.promptAck(PromptAck(prompt: "Lego World", success: false, error: "No toys")),
                DecartErrorCode.moderationViolation
            ),
            (.promptAck(PromptAck(prompt: "Lego World", success: false, error: "Invalid API key")), .invalidAPIKey),
            (.promptAck(PromptAck(prompt: nil, success: false)), .moderationViolation),
        ] {
            var driver = try MachineDriver(at: .awaitingInitialAck)
            driver.server(message)
            #expect(driver.state == .error)
            #expect(!driver.startsMedia())
            let error = try #require(driver.failures().first)
            #expect(driver.failures().count == 1)
            #expect(error.code == code && error.stage == .initialState && error.isPermanent)
            if case .promptAck(let ack) = message, let reason = ack.error { #expect(error.message.contains(reason)) }
            #expect(driver.opens() == 1)
            driver.wait(.seconds(100))
            #expect(driver.opens() == 1)
        }
    }

    @Test func anErrorBeforeTheOfferFailsTheAttempt() throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .awaitingInitialAck)
        driver.server(.error("GPU on fire"))
        #expect(driver.state == .error)
        #expect(driver.failures().first?.message.contains("GPU on fire") == true)
        #expect(!driver.startsMedia())
    }

    @Test func candidatesWaitForTheOffer() throws {
        var driver = try MachineDriver(at: .negotiating)
        _ = driver.takeActions()
        driver.media(.candidate(CandidateMessage(candidate: "candidate:1")))
        driver.media(.candidate(nil))
        #expect(driver.takeActions() == [])
        driver.media(.offer(sdp: "o"))
        #expect(
            driver.sent() == [
                .offer(sdp: "o"), .iceCandidate(CandidateMessage(candidate: "candidate:1")), .iceCandidate(nil),
            ])
    }

    @Test func candidatesThatWaitForTheOfferAreBounded() throws {
        var driver = try MachineDriver(at: .negotiating)
        _ = driver.takeActions()
        let candidates = (0...256).map { CandidateMessage(candidate: "candidate:\($0)") }
        for candidate in candidates { driver.media(.candidate(candidate)) }
        driver.media(.offer(sdp: "o"))
        #expect(driver.sent() == [.offer(sdp: "o")] + candidates.prefix(256).map { .iceCandidate($0) })
    }

    @Test func relaysThatComeBeforeTheOfferAreUsed() throws {
        let relay = TURNConfig(urls: ["turn:a:1"], username: "u", credential: Secret("c"))
        var driver = try MachineDriver(at: .awaitingInitialAck)
        driver.server(.turnConfig(relay))
        driver.acknowledgeAll()
        #expect(driver.actions.contains(.startMedia(driver.attempt, .negotiate(relays: [relay]))))
        driver.server(.turnConfig(relay))
    }

    @Test func relaysAreBounded() throws {
        let relays = (0...8).map { TURNConfig(urls: ["turn:a:\($0)"], username: "u", credential: Secret("c")) }
        var driver = try MachineDriver(at: .awaitingInitialAck)
        for relay in relays { driver.server(.turnConfig(relay)) }
        driver.acknowledgeAll()
        #expect(driver.actions.contains(.startMedia(driver.attempt, .negotiate(relays: Array(relays.prefix(8))))))
        driver = try MachineDriver(at: .awaitingInitialAck)
        driver.server(.turnConfig(TURNConfig(urls: (0..<1000).map { "turn:a:\($0)" })))
        driver.acknowledgeAll()
        let few = TURNConfig(urls: (0..<8).map { "turn:a:\($0)" })
        #expect(driver.actions.contains(.startMedia(driver.attempt, .negotiate(relays: [few]))))
    }

    @Test func nonsenseIsIgnored() throws {
        var driver = try MachineDriver()
        // An answer without an offer, acks without requests and foreign messages, in every state.
        let nonsense: [ServerMessage] = [
            .answer(sdp: "x"), .offer(sdp: "x"), .unknown(type: "weird"),
            .promptAck(PromptAck(prompt: "?", success: true)),
            .livekitRoomInfo(LiveKitRoomInfo(url: "wss://x", token: Secret("t"))), .iceCandidate(nil),
            .promptAck(PromptAck(prompt: "?", success: false, error: "401")), .status("Dancing"),
        ]
        driver.handle(.start)
        for message in nonsense { driver.server(message) }
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        for message in nonsense { driver.server(message) }
        driver.server(.ready)
        for message in nonsense { driver.server(message) }
        driver.handle(.channelMalformed(driver.attempt, reason: "not JSON"))
        #expect(!driver.startsMedia())
        driver.acknowledgeAll()
        for message in nonsense { driver.server(message) }
        #expect(!driver.actions.contains { if case .applyAnswer = $0 { true } else { false } })
        driver.negotiate()
        for message in nonsense { driver.server(message) }
        #expect(driver.state == .connected)
        #expect(driver.actions.count { if case .applyAnswer = $0 { true } else { false } } == 1)
        #expect(driver.failures() == [] && driver.warnings() == [] && driver.results() == [])
    }

    @Test func factsOfOlderAttemptsAreIgnored() throws {
        var driver = try MachineDriver(at: .connected)
        let old = driver.attempt
        driver.handle(.channelClosed(old, code: 1011, reason: ""))
        driver.wait(.seconds(1))
        #expect(driver.attempt != old)
        _ = driver.takeActions()
        let before = driver.snapshot
        let error = SessionError(.network, "late", stage: .channel, isPermanent: true)
        for event in [
            .channelOpened(old, transport: nil, upgrade: nil), .channelClosed(old, code: 1000, reason: "403"),
            .channelFailed(old, error), .channelMessage(old, .error("401")), .media(old, .failed(error)),
            .media(old, .connected(ice: nil, dtls: nil)), .mediaSampled(old, MediaTraffic(sent: 9, received: 9)),
            .timerFired(.opening(old)), .timerFired(.initialAck(old)), .timerFired(.mediaConnect(old)),
            .timerFired(.mediaSample(old)), .timerFired(.stable(old)), .timerFired(.statusTimeout(old)),
            .timerFired(.retry), .timerFired(.acks), .channelMalformed(old, reason: "x"),
        ] as [SessionEvent] {
            driver.handle(event)
        }
        #expect(driver.takeActions() == [])
        #expect(driver.snapshot == before)
    }

    @Test(arguments: [true, false]) func aTimeoutNamesTheMissingRelay(isMissing: Bool) throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .negotiating)
        driver.media(.offer(sdp: "offer"))
        if isMissing { driver.media(.relaysMissing) }
        driver.wait(.seconds(100))
        let error = try #require(driver.failures().first)
        #expect(error.code == .connectionTimeout && error.stage == .media)
        #expect(error.message.contains("No TURN server gave a relay") == isMissing)
        #expect(error.message.contains("Check that UDP passes") != isMissing)
    }

    @Test func startsAgainAfterStopAndAfterAnError() throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .connected)
        driver.handle(.start)
        #expect(driver.opens() == 1)
        driver.handle(.stop)
        driver.handle(.stop)
        #expect(driver.state == .disconnected)
        driver.handle(.start)
        #expect(driver.state == .connecting)
        #expect(driver.opens() == 2)
        driver.handle(.channelFailed(driver.attempt, SessionError(.network, "x", stage: .connect)))
        #expect(driver.state == .error)
        driver.handle(.stop)
        #expect(driver.state == .error)
        driver.handle(.start)
        driver.reconnect()
        #expect(driver.state == .connected)
        #expect(driver.snapshot.lastError == nil)
    }

    @Test func stopInEveryStepLeavesNothing() throws {
        let waiting: (inout MachineDriver) -> Void = {
            $0.walkToConnected()
            $0.media(.failed(SessionError(.webRTC, "x", stage: .media)))
        }
        for (name, walk) in [("idle", { _ in }), ("waiting", waiting)] + MachineDriver.phases {
            var driver = try MachineDriver()
            walk(&driver)
            driver.handle(.stop)
            #expect(driver.state == .disconnected, "\(name)")
            #expect(driver.runningTimers.isEmpty, "\(name): \(driver.runningTimers)")
            let opened = driver.opens()
            let closed = driver.actions.count { if case .closeChannel = $0 { true } else { false } }
            #expect(opened == closed, "\(name)")
            let started = driver.actions.count { if case .startMedia = $0 { true } else { false } }
            let stopped = driver.actions.count { if case .stopMedia = $0 { true } else { false } }
            #expect(started == stopped, "\(name)")
            _ = driver.takeActions()
            driver.wait(.seconds(1000))
            #expect(driver.takeActions() == [], "\(name)")
        }
    }

    /// IDs from the service become properties and parts of messages: short and without control characters.
    @Test func theServicesNamesAreMadePrintable() throws {
        let harm = "\u{1b}]0;owned\u{7}" + String(repeating: "x", count: 60_000)
        let messages: [(TransportChoice, ServerMessage)] = [
            (.webrtc, .sessionID(SessionIdentity(id: harm, serverIP: harm, serverPort: 80))),
            (
                .livekit,
                .livekitRoomInfo(
                    LiveKitRoomInfo(url: "wss://room.example", token: Secret("t"), roomName: harm, sessionID: harm))
            ),
        ]
        for (transport, message) in messages {
            var driver = try MachineDriver(at: .opening) { $0.transport = transport }
            driver.handle(.channelOpened(AttemptID(1), transport: .milliseconds(20), upgrade: .milliseconds(10)))
            driver.server(message)
            let identity = driver.snapshot.identity
            let names = [identity?.id, identity?.serverIP, identity?.roomName].compactMap { $0 }
            #expect(!names.isEmpty, "\(message.type)")
            for name in names {
                #expect(
                    name.unicodeScalars.count <= 257 && !name.unicodeScalars.contains { $0.value < 0x20 },
                    "\(message.type)")
            }
        }
    }
}
