import DecartProtocol
import DecartSession
import Testing

/// The service may end a generation and start another: session and connections stay.
@Suite("The machine: generations", .timeLimit(.minutes(1)))
struct GenerationTests {

    private func generating(
        _ change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> MachineDriver {
        var driver = try MachineDriver(at: .connected, change: change)
        driver.server(.generationStarted)
        driver.wait(.seconds(2))
        #expect(driver.state == .generating)
        _ = driver.takeActions()
        return driver
    }

    private func ended(
        _ reason: String? = "timeout", _ change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> MachineDriver {
        var driver = try generating(change)
        driver.server(.generationEnded(seconds: 61, reason: reason))
        driver.flow = .sending
        return driver
    }

    // MARK: The session stays

    @Test(arguments: [nil, "timeout", "disconnect", "error", "a word that nobody knows"])
    func theSessionStays(reason: String?) throws {
        var driver = try ended(reason)
        #expect(driver.state == .connected && driver.snapshot.billedSeconds == 61)
        #expect(driver.snapshot.generationSeconds == nil)
        // A look at the path and a note for the log: no new connection, no warning.
        let notes = driver.takeActions()
        #expect(notes.count == 2 && notes.first == .suspectPath(driver.attempt))
        guard case .report(.note(let text)) = notes.last else {
            Issue.record("no note: \(notes)")
            return
        }
        #expect(text.contains(reason ?? "ended the generation"))
        #expect(driver.snapshot.lastError == nil)
        driver.wait(.seconds(8))
        driver.server(.generationStarted)
        driver.flow = .flowing
        #expect(driver.state == .generating)
        driver.wait(.seconds(60))
        #expect(driver.takeActions().isEmpty && driver.opens() == 0)
        driver.server(.generationTick(seconds: 62))
        #expect(driver.snapshot.generationSeconds == 62 && driver.snapshot.billedSeconds == 62)
    }

    /// Each generation of a session may have a count of its own, and each session has.
    @Test func theSumOfBilledSecondsNeverFalls() throws {
        var driver = try ended()
        for seconds in [1.0, 2, 3] { driver.server(.generationTick(seconds: seconds)) }
        #expect(driver.snapshot.generationSeconds == 3 && driver.snapshot.billedSeconds == 64)
        driver.handle(.channelClosed(driver.attempt, code: 1012, reason: ""))
        #expect(driver.snapshot.generationSeconds == nil && driver.snapshot.billedSeconds == 64)
        driver.redial()
        driver.server(.generationTick(seconds: 1))
        driver.server(.generationTick(seconds: -1e300))
        #expect(driver.snapshot.generationSeconds == 0 && driver.snapshot.billedSeconds == 65)
        driver.handle(.stop)
        #expect(driver.snapshot.generationSeconds == nil && driver.snapshot.billedSeconds == 65)
        driver.handle(.start)
        #expect(driver.snapshot.billedSeconds == 65)
    }

    @Test func aTickStartsItToo() throws {
        var driver = try ended()
        driver.server(.generationTick(seconds: nil))
        #expect(driver.state == .generating && driver.snapshot.generationSeconds == nil)
    }

    @Test func anEndBeforeTheFirstGeneration() throws {
        var driver = try MachineDriver(at: .negotiating)
        driver.server(.generationEnded(seconds: nil, reason: "timeout"))
        #expect(driver.state == .connecting)
        driver.negotiate()
        #expect(driver.state == .connected && driver.opens() == 1)
    }

    /// A message on the channel of an earlier attempt is ignored.
    @Test func anEndOfAnOlderAttempt() throws {
        var driver = try generating()
        driver.handle(.channelMessage(AttemptID(77), .generationEnded(seconds: 5, reason: "insufficient_credits")))
        #expect(driver.state == .generating && driver.takeActions().isEmpty)
    }

    // MARK: The watchdog

    @Test func fifteenSecondsOfSendingAreTheEnd() throws {
        var driver = try ended()
        driver.wait(.seconds(14.5))
        #expect(driver.state == .connected)
        driver.wait(.seconds(1))
        #expect(driver.state == .reconnecting)
        let error = try #require(driver.warnings().first)
        #expect(error.stage == .generation && !error.isPermanent && error.message.contains("15 s"))
        driver.waitForRetry()
        #expect(driver.opens() == 1)
    }

    @Test func timeInWhichNothingIsSentDoesNotCount() throws {
        var driver = try ended()
        driver.wait(.seconds(10))
        driver.wait(.seconds(3600), flow: .nothing)
        #expect(driver.state == .connected)
        driver.wait(.seconds(4), flow: .sending)
        #expect(driver.state == .connected)
        driver.wait(.seconds(2))
        #expect(driver.state == .reconnecting)
    }

    /// A service ends a generation when no frames arrive: if some are sent, the path is judged at once.
    @Test(arguments: [("timeout", false, true), ("insufficient_credits", false, false), ("timeout", true, false)])
    func anEndForWantOfFramesMakesThePathSuspicious(reason: String, isMuted: Bool, isSuspicious: Bool) throws {
        var driver = try MachineDriver.connected(for: .seconds(3))
        if isMuted { driver.handle(.mute(true)) }
        driver.server(.generationEnded(seconds: 3, reason: reason))
        #expect(driver.actions.contains(.suspectPath(driver.attempt)) == isSuspicious)
    }

    /// Where the path is lost, the next session need not wait for another generation.
    @Test func anEndOnALostPathIsWaitedForLess() throws {
        var driver = try MachineDriver.connected(for: .seconds(3))
        driver.server(.generationEnded(seconds: 3, reason: "timeout"))
        driver.media(.pathLost)
        driver.wait(.seconds(6), flow: .sending)
        #expect(driver.state == .reconnecting)
    }

    /// A path may lose long packets alone, from the start or later.
    @Test(arguments: [true, false]) func missingMediaMakeTheNextPacketsShorter(isFirst: Bool) throws {
        var driver = try MachineDriver.connected(for: isFirst ? .zero : .seconds(3))
        #expect(!driver.snapshot.sendsSmallPackets)
        driver.wait(.seconds(16), flow: .sending)
        #expect(driver.snapshot.sendsSmallPackets)
        driver.handle(.stop)
        driver.handle(.start)
        #expect(!driver.snapshot.sendsSmallPackets)
    }

    @Test(arguments: [ServerMessage.generationEnded(seconds: nil, reason: nil), .generationStarted])
    func anotherWordBeginsTheTimeAnew(word: ServerMessage) throws {
        var driver = try ended()
        driver.wait(.seconds(12))
        driver.server(word)
        driver.wait(.seconds(4.5))
        #expect(driver.state.isConnected)
    }

    /// While a generation runs, missing media are a stall after 5 s.
    @Test(arguments: [ServerMessage.generationStarted, .generationTick(seconds: 62)])
    func afterTheStartItIsAStall(word: ServerMessage) throws {
        var driver = try ended()
        driver.wait(.seconds(3))
        driver.server(word)
        driver.wait(.seconds(4))
        #expect(driver.warnings().isEmpty)
        driver.wait(.seconds(2))
        #expect(driver.state == .generating && driver.warnings().count == 1)
    }

    /// Ticks show that the service bills, not that media arrive.
    @Test func ticksDoNotHideADeadPath() throws {
        var driver = try generating()
        driver.flow = .sending
        for second in 0..<16 where driver.state == .generating {
            driver.wait(.seconds(1))
            driver.server(.generationTick(seconds: Double(second)))
        }
        #expect(driver.state == .reconnecting)
        #expect(driver.warnings().first?.stage == .media)
    }

    @Test func mediaWithoutAWordStartTheWatchToo() throws {
        var driver = try ended()
        driver.wait(.seconds(8))
        driver.wait(.seconds(2), flow: .flowing)
        #expect(driver.state == .connected)
        driver.wait(.seconds(6), flow: .sending)
        #expect(driver.warnings().map { $0.message.contains("for 5 s") } == [true])
    }

    /// Frames in flight when the generation ended do not count as a new generation.
    @Test func whatWasOnItsWayIsNoStart() throws {
        var driver = try ended()
        driver.wait(.seconds(0.5), flow: .flowing)
        driver.wait(.seconds(0.5), flow: .sending)
        driver.wait(.seconds(0.5), flow: .flowing)
        driver.wait(.seconds(14), flow: .sending)
        #expect(driver.state == .connected)
        driver.wait(.seconds(2))
        #expect(driver.state == .reconnecting)
    }

    // MARK: Causes that must reach the user

    private static let causes = [
        ("insufficient_credits", "INSUFFICIENT_CREDITS", "Top up"),
        ("Insufficient credits", "INSUFFICIENT_CREDITS", "Top up"),
        ("moderation_violation", "MODERATION_VIOLATION", "Change the prompt"),
    ]

    @Test(arguments: causes) func aWarningAtOnceAndAnErrorWithTheClose(reason: String, code: String, remedy: String)
        throws
    {
        var driver = try ended(reason)
        #expect(driver.state == .connected && driver.opens() == 0 && driver.failures().isEmpty)
        let warning = try #require(driver.warnings().first)
        #expect(driver.warnings().count == 1 && !warning.isPermanent && warning.stage == .generation)
        #expect(warning.code.rawValue == code && warning.message.contains(remedy))
        #expect(driver.snapshot.lastError == warning)
        driver.wait(.seconds(3))
        driver.handle(.channelClosed(driver.attempt, code: 1000, reason: ""))
        let error = try #require(driver.failures().first)
        #expect(driver.state == .error && driver.failures().count == 1)
        #expect(error.isPermanent && error.code.rawValue == code && error.message.contains(remedy))
        driver.wait(.seconds(100))
        #expect(driver.opens() == 0 && driver.runningTimers.isEmpty)
    }

    /// The media path may close before the control channel.
    @Test func mediaThatCloseFirst() throws {
        let closed = SessionError(.webRTC, "closed", stage: .media)
        for event in [MediaEvent.failed(closed), .closedByPeer(closed)] {
            var driver = try ended("insufficient_credits")
            driver.media(event)
            #expect(driver.state == .error && driver.failures().first?.code.rawValue == "INSUFFICIENT_CREDITS")
        }
    }

    @Test func creditsThatCameInTime() throws {
        var driver = try ended("insufficient_credits")
        driver.server(.generationStarted)
        driver.flow = .flowing
        driver.handle(.channelClosed(driver.attempt, code: 1012, reason: ""))
        #expect(driver.state == .reconnecting && driver.failures().isEmpty)
    }

    /// A broken connection is not a close by the service.
    @Test func aBrokenNetworkIsTriedAgain() throws {
        var driver = try ended("insufficient_credits")
        driver.handle(.channelFailed(driver.attempt, SessionError(.network, "lost", stage: .channel)))
        #expect(driver.state == .reconnecting && driver.failures().isEmpty)
    }

    @Test func anEndAndACloseAreALossLikeAnyOther() throws {
        var driver = try ended("timeout")
        driver.handle(.channelClosed(driver.attempt, code: 1000, reason: "session limit"))
        #expect(driver.state == .reconnecting && driver.failures().isEmpty)
    }

    // MARK: A path that outlives its channel, and viewers

    /// The path delivers no frames once the generation has ended, so it is not kept during the reconnect.
    @Test func anEndedPathIsNotKept() throws {
        func stopsMedia(_ driver: inout MachineDriver) -> Bool {
            _ = driver.takeActions()
            let id = driver.attempt
            driver.handle(.channelClosed(id, code: 1012, reason: ""))
            return driver.takeActions().contains(.stopMedia(id))
        }
        var driver = try ended("timeout") { $0.keepsMediaWhileReconnecting = true }
        driver.wait(.seconds(1), flow: .nothing)
        #expect(stopsMedia(&driver))
        var running = try generating { $0.keepsMediaWhileReconnecting = true }
        #expect(!stopsMedia(&running))
    }

    /// A kept path stays alongside the next attempt, whose generation is separate.
    @Test func theNextAttemptsEndIsNotTheKeptPaths() throws {
        var driver = try generating { $0.keepsMediaWhileReconnecting = true }
        let kept = driver.attempt
        driver.handle(.channelClosed(kept, code: 1012, reason: ""))
        driver.waitForRetry()
        driver.reconnectMedia()
        driver.server(.generationEnded(seconds: nil, reason: nil))
        driver.wait(.seconds(4))
        #expect(!driver.takeActions().contains(.stopMedia(kept)))
        driver.wait(.seconds(6), flow: .sending)
        // The kept path is dead after 5 s; the new one may stay silent for 15 s after its generation has ended.
        #expect(driver.takeActions().contains(.stopMedia(kept)) && driver.state == .connected)
    }

    @Test(arguments: [TransportChoice.webrtc, .livekit]) func aViewerStays(transport: TransportChoice) throws {
        var driver = try MachineDriver(prompt: nil, at: .open) { ($0.transport, $0.isViewer) = (transport, true) }
        if transport == .livekit {
            driver.joinRoom()
        } else {
            driver.wait(.seconds(1))
            driver.negotiate()
        }
        driver.wait(.seconds(5), flow: .receiving)
        driver.server(.generationEnded(seconds: nil, reason: "timeout"))
        driver.wait(.seconds(600), flow: .nothing)
        driver.wait(.seconds(5), flow: .receiving)
        #expect(driver.state == .connected && driver.opens() == 1)
    }

    // MARK: The service's own offer

    @Test func isAnsweredOnTheSamePath() throws {
        var driver = try ended()
        _ = driver.takeActions()
        let id = driver.attempt
        driver.server(.offer(sdp: "theirs"))
        #expect(driver.takeActions() == [.applyOffer(id, sdp: "theirs")])
        driver.media(.answer(sdp: "ours"))
        #expect(driver.takeActions() == [.send(id, .answer(sdp: "ours"))])
        #expect(driver.state == .connected)
        // Afterwards our offer may be sent.
        driver.media(.offer(sdp: "with sound"))
        #expect(driver.takeActions() == [.send(id, .offer(sdp: "with sound"))])
    }

    /// Glare: the service's offer is ignored while ours is in flight.
    @Test func isIgnoredWhileOursIsInFlight() throws {
        var driver = try generating()
        let id = driver.attempt
        driver.media(.offer(sdp: "with sound"))
        driver.server(.offer(sdp: "theirs"))
        #expect(!driver.takeActions().contains { if case .applyOffer = $0 { true } else { false } })
        driver.server(.answer(sdp: "yes"))
        #expect(driver.takeActions() == [.applyAnswer(id, sdp: "yes")])
        driver.server(.offer(sdp: "theirs again"))
        #expect(driver.takeActions() == [.applyOffer(id, sdp: "theirs again")])
    }

    @Test func isNotForARoomOrBeforeOurs() throws {
        var room = try MachineDriver(at: .open) { $0.transport = .livekit }
        room.joinRoom()
        for (start, state) in [(try MachineDriver(at: .negotiating), SessionState.connecting), (room, .connected)] {
            var driver = start
            driver.server(.offer(sdp: "theirs"))
            #expect(!driver.actions.contains { if case .applyOffer = $0 { true } else { false } })
            #expect(driver.state == state)
        }
    }

    // MARK: Muted on purpose

    /// After a mute, the service may take as long to send media again as after the end of a generation, even if it
    /// never reports that end.
    @Test func silenceAfterAMuteIsNoFault() throws {
        var driver = try generating()
        driver.handle(.mute(true))
        driver.flow = .nothing
        driver.server(.generationTick(seconds: 3))
        driver.wait(.seconds(600))
        driver.handle(.mute(false))
        driver.wait(.seconds(14), flow: .sending)
        #expect(driver.takeActions().isEmpty && driver.opens() == 0)
        driver.wait(.seconds(2))
        #expect(driver.state != .generating)
        #expect(driver.warnings().map(\.stage) == [.generation])
    }

    @Test func mediaAfterAMuteAreWatchedAsBefore() throws {
        var driver = try generating()
        driver.handle(.mute(true))
        driver.wait(.seconds(10), flow: .nothing)
        driver.handle(.mute(false))
        driver.wait(.seconds(3), flow: .flowing)
        driver.wait(.seconds(7), flow: .sending)
        #expect(driver.takeActions().contains(.requestKeyframe(driver.attempt)))
    }

    /// The mute holds for later attempts too.
    @Test func aReconnectWhileMutedIsNotWatched() throws {
        var driver = try generating()
        driver.handle(.mute(true))
        driver.flow = .nothing
        driver.handle(.channelClosed(driver.attempt, code: 1012, reason: ""))
        driver.redial()
        driver.wait(.seconds(60))
        #expect(driver.state == .connected)
        driver.handle(.mute(false))
        driver.wait(.seconds(14), flow: .sending)
        #expect(driver.state == .connected)
    }

    @Test func theServicesMuteIsShown() throws {
        var driver = try generating()
        driver.media(.videoMuted(true))
        #expect(driver.snapshot.isMutedByService)
        driver.wait(.seconds(60), flow: .nothing)
        let warnings = driver.warnings().map { SessionAction.report(.warning($0)) }
        #expect(warnings.count == 1 && driver.takeActions() == warnings)
        driver.media(.videoMuted(false))
        #expect(!driver.snapshot.isMutedByService)
    }
}
