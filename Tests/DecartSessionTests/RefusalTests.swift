import DecartProtocol
import DecartSession
import Testing

/// Errors of today's service. The words and the shape: `RealtimeWebSocketErrorMessage` of the JavaScript SDK
/// (DecartAI/sdk#144, packages/sdk/src/realtime/types.ts).
@Suite("Refusals of the service", .timeLimit(.minutes(1)))
struct RefusalTests {
    /// `dials`: 1 for a permanent error, 3 with two retries.
    static let rows: [(word: String, code: DecartErrorCode, remedy: String, stage: SessionError.Stage, dials: Int)] = [
        ("invalid_api_key", .invalidAPIKey, "Check the key", .channel, 1),
        ("origin_not_allowed", .invalidAPIKey, "allowedOrigins", .channel, 1),
        ("invalid_model", .modelNotFound, "Correct the property model", .channel, 1),
        ("removed_model", .modelNotFound, "newer model", .channel, 1),
        ("model_not_available_for_trial", .modelNotFound, "end the trial", .channel, 1),
        ("insufficient_credits", .insufficientCredits, "Top up", .channel, 1),
        ("upstream_rejected", .server, "try again later", .channel, 3),
        ("upstream_timeout", .server, "try again later", .channel, 3),
        ("model_server_disconnected", .server, "try again later", .channel, 3),
        ("model_setup_timeout", .server, "try again later", .channel, 3),
        ("session_duration_limit", .server, "start another one", .generation, 1),
        ("session_not_found", .server, "subscribe token", .channel, 3),
        ("server_shutdown", .server, "try again later", .channel, 3),
        ("moderation_violation", .moderationViolation, "Change the prompt", .initialState, 1),
        ("internal_error", .server, "try again later", .initialState, 3),
    ]

    /// Lets each dial end with this error.
    private func refuse(_ driver: inout MachineDriver, _ text: String, _ word: String?) {
        driver.handle(.start)
        for _ in 0..<10 where driver.state == .connecting {
            driver.open()
            driver.server(.error(text, type: word))
            driver.waitForRetry()
        }
        driver.wait(.seconds(100))
    }

    @Test(arguments: rows) func eachWordHasItsMeaning(
        word: String, code: DecartErrorCode, remedy: String, stage: SessionError.Stage, dials: Int
    ) throws {
        var driver = try MachineDriver(maximumRetries: 2)
        refuse(&driver, "The service's own words", word)
        #expect(driver.opens() == dials && driver.state == .error && !driver.startsMedia())
        let error = try #require(driver.failures().first)
        #expect(driver.failures().count == 1 && driver.warnings().count == dials - 1)
        #expect(error.code == code && error.stage == stage && error.isPermanent == (dials == 1))
        #expect(error.message.hasPrefix("The service reported an error: The service's own words. "))
        #expect(error.message.contains(remedy), "\(error.message)")
        #expect(error.message.contains(". Gave up after 2 retries") == (dials > 1), "\(error.message)")
    }

    /// With the words for no capacity, which wait, these are all.
    @Test func theTableHasNoOtherWord() {
        let waiting = ["capacity", "upstream_capacity"]
        #expect(Set(ServiceErrorType.allCases.map(\.rawValue)) == Set(Self.rows.map(\.word) + waiting))
    }

    @Test(
        arguments: [
            // The word counts, whatever the text says.
            ("Unauthorized", "upstream_timeout", .server, 3),
            ("Insufficient credits", "internal_error", .server, 3),
            // Without a known word, the text counts.
            ("Insufficient credits", nil, .insufficientCredits, 1), ("Invalid model: x", nil, .modelNotFound, 1),
            ("HTTP 401", "a_new_word", .invalidAPIKey, 1), ("something", "a_new_word", .server, 3),
            ("Session not found", nil, .server, 3), ("internal error, try again", nil, .server, 3),
        ] as [(String, String?, DecartErrorCode, Int)])
    func theWordComesBeforeTheText(text: String, word: String?, code: DecartErrorCode, dials: Int) throws {
        var driver = try MachineDriver(maximumRetries: 2)
        refuse(&driver, text, word)
        #expect(driver.opens() == dials && driver.failures().first?.code == code, "\(driver.failures())")
    }

    @Test(
        arguments: [
            ("The GPUs are busy", "upstream_capacity"), ("Please wait.", "capacity"),
            // decart-python#47.
            ("Server at capacity. Please try again later.", nil),
            ("a livekit room could not be made", "upstream_capacity"),
        ] as [(String, String?)])
    func capacityIsWaitedFor(text: String, word: String?) throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .opening) { $0.transport = .livekit }
        for dial in 1...4 {
            driver.open()
            driver.server(.error(text, type: word))
            #expect(driver.state == .connecting && driver.snapshot.serviceStatus == .waitingForSession)
            driver.wait(.seconds(6))
            #expect(driver.opens() == dial + 1)
        }
        #expect(driver.warnings().map(\.code) == [.concurrencyLimit] && driver.failures().isEmpty)
        #expect(driver.warnings()[0].message.hasSuffix(". The service has no capacity free."))

        var atOnce = try MachineDriver { $0.limitWait = .zero }
        refuse(&atOnce, text, word)
        #expect(atOnce.opens() == 1)
        #expect(atOnce.failures().first?.message.hasSuffix(" Set limit-wait to wait for one.") == true)
    }

    @Test(arguments: ["Insufficient credits", "origin not allowed", "moderation violation"])
    func aCloseWithTheCauseIsDialledOnce(reason: String) throws {
        var driver = try MachineDriver(at: .opening)
        driver.open()
        driver.handle(.channelClosed(driver.attempt, code: 1008, reason: reason))
        driver.wait(.seconds(100))
        #expect(driver.opens() == 1 && driver.failures().first?.isPermanent == true)
        #expect(driver.failures().first?.message.contains("(1008: \(reason)). ") == true)
    }

    /// Policy violation: another session would end the same way, whatever the reason says.
    @Test(
        arguments: ["", "policy violation", "Server at capacity", "Concurrent session limit reached", "slow down"],
        [MachineDriver.Phase.opening, .open, .negotiating, .connected])
    func code1008EndsForGood(reason: String, phase: MachineDriver.Phase) throws {
        var driver = try MachineDriver(at: phase) { $0.keepsMediaWhileReconnecting = true }
        let dials = driver.opens()
        driver.handle(.channelClosed(driver.attempt, code: 1008, reason: reason))
        driver.wait(.seconds(100))
        #expect(driver.state == .error && driver.opens() == dials && driver.failures().count == 1)
        #expect(driver.failures().first?.isPermanent == true && driver.runningTimers.isEmpty)
        #expect(driver.failures().first?.message.contains("(1008") == true)
    }

    // MARK: While a session runs

    /// The user can remove these causes in the running session, as when a generation ends for them.
    @Test(arguments: ["insufficient_credits", "moderation_violation"])
    func aCauseThatTheUserCanRemove(word: String) throws {
        var driver = try MachineDriver(at: .connected)
        driver.server(.generationStarted)
        driver.server(.error("words", type: word))
        #expect(driver.state == .generating && driver.warnings().count == 1 && !driver.warnings()[0].isPermanent)
        var removed = driver
        driver.handle(.channelClosed(driver.attempt, code: 1000, reason: ""))
        driver.wait(.seconds(100))
        #expect(driver.state == .error && driver.opens() == 1)
        #expect(driver.failures().first?.code.rawValue.lowercased() == word)

        removed.server(.generationTick(seconds: 2))
        removed.handle(.channelClosed(removed.attempt, code: 1012, reason: ""))
        #expect(removed.state == .reconnecting && removed.failures().isEmpty)
    }

    @Test func aRefusedPromptIsNoCauseOfAnEnd() throws {
        var driver = try MachineDriver(at: .connected)
        let id = try driver.update("forbidden")
        driver.server(.error("Not this one", type: "moderation_violation"))
        #expect(driver.results().map(\.id) == [id] && driver.results()[0].error == "Not this one")
        #expect(driver.state == .connected && driver.warnings().isEmpty)
        driver.handle(.channelClosed(driver.attempt, code: 1012, reason: ""))
        #expect(driver.state == .reconnecting)
    }

    /// A request is refused while its attempt connects: the next one begins with the prompt before it.
    @Test func aRefusedRequestDoesNotEndTheStart() throws {
        var driver = try MachineDriver(prompt: "good", at: .opening)
        try driver.update("forbidden")
        driver.open()
        driver.server(.error("Not this one", type: "moderation_violation"))
        #expect(driver.state == .connecting && driver.results().map(\.isAccepted) == [false])
        driver.waitForRetry()
        _ = driver.takeActions()
        driver.open()
        #expect(driver.sent() == [.text("good")])
        driver.server(.error("Nor this one", type: "moderation_violation"))
        #expect(driver.state == .error && driver.failures().map(\.code) == [.moderationViolation])
    }

    /// In a room, media may be connected before the first prompt has its answer.
    @Test func aRefusedFirstPromptInARoomEndsTheSession() throws {
        var driver = try MachineDriver(at: .awaitingInitialAck) { $0.transport = .livekit }
        driver.joinRoom()
        driver.server(.error("Not this one", type: "moderation_violation"))
        driver.wait(.seconds(100))
        #expect(driver.opens() == 1 && driver.failures().map(\.code) == [.moderationViolation])
    }

    @Test func onlyAViewerNeedsThatSession() throws {
        var owner = try MachineDriver(at: .connected)
        owner.server(.error("gone", type: "session_not_found"))
        #expect(owner.state == .reconnecting && owner.failures().isEmpty)
        var viewer = try MachineDriver(prompt: nil, at: .awaitingInitialAck) { $0.isViewer = true }
        viewer.server(.error("gone", type: "session_not_found"))
        #expect(viewer.state == .error && viewer.failures().map(\.isPermanent) == [true] && viewer.opens() == 1)
    }

    /// A session whose attempts have fresh tokens continues after the service's limit.
    @Test(arguments: [Duration.zero, .seconds(10)]) func aDurationThatATokenRenews(renewBefore: Duration) throws {
        var driver = try MachineDriver(at: .connected) { $0.renewBefore = renewBefore }
        driver.server(.error("over", type: "session_duration_limit"))
        #expect(driver.state == (renewBefore == .zero ? .error : .reconnecting))
    }
}
