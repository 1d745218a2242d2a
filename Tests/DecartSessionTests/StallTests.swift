import DecartProtocol
import DecartSession
import Testing

/// Frames are sent and none arrive, on a path that carries packets: the session stays until `media-timeout`.
@Suite("The machine: stalls of media", .timeLimit(.minutes(1)))
struct StallTests {

    private func silent(_ change: (inout SessionConfiguration) -> Void = { _ in }) throws -> MachineDriver {
        var driver = try MachineDriver.connected(for: .seconds(2), change: change)
        driver.flow = .sending
        return driver
    }

    private func stalled(_ change: (inout SessionConfiguration) -> Void = { _ in }) throws -> MachineDriver {
        var driver = try silent(change)
        driver.wait(.seconds(5.5))
        _ = driver.takeActions()
        return driver
    }

    /// Stalls for that long, and returns the number of sessions begun.
    private func dials(_ driver: inout MachineDriver, after time: Duration) -> Int {
        driver.wait(time)
        driver.waitForRetry()
        return driver.opens()
    }

    @Test func aWarningAKeyframeAndARestartAfterFiveSeconds() throws {
        var driver = try silent()
        let id = driver.attempt
        driver.wait(.seconds(4.5))
        #expect(driver.takeActions().isEmpty)
        driver.wait(.seconds(1))
        let warning = try #require(driver.warnings().first)
        #expect(driver.takeActions() == [.report(.warning(warning)), .requestKeyframe(id), .recover(id)])
        #expect(warning.code == .webRTC && warning.stage == .media && !warning.isPermanent)
        #expect(warning.message.contains("for 5 s") && warning.message.contains("15 s (media-timeout)"))
        #expect(driver.state == .connected && driver.snapshot.lastError == warning && driver.snapshot.retries == 0)
    }

    @Test func mediaThatComeBackKeepTheSession() throws {
        var driver = try stalled()
        driver.wait(.seconds(3))
        driver.wait(.seconds(60), flow: .flowing)
        #expect(driver.takeActions().isEmpty && driver.state == .connected)
    }

    @Test func anotherStallIsAnotherWarning() throws {
        var driver = try stalled()
        driver.wait(.seconds(1), flow: .flowing)
        driver.wait(.seconds(6), flow: .sending)
        #expect(driver.warnings().count == 1 && driver.actions.contains(.requestKeyframe(driver.attempt)))
    }

    @Test func theTimeoutBeginsAnotherSession() throws {
        var driver = try stalled()
        let old = driver.attempt
        driver.wait(.seconds(9))
        #expect(driver.takeActions().isEmpty && driver.state == .connected)
        driver.wait(.seconds(1))
        #expect(
            driver.state == .reconnecting
                && driver.warnings().map(\.message) == [
                    "No media arrived from the service for 15 s while frames were sent."
                ])
        #expect(driver.hasEnded(old))
        #expect(dials(&driver, after: .zero) == 1)
        driver.reconnect()
        #expect(driver.state == .connected)
    }

    @Test(arguments: [3, 5, 60]) func theTimeoutIsTheUsers(seconds: Int) throws {
        var driver = try silent { $0.mediaTimeout = .seconds(seconds) }
        #expect(dials(&driver, after: .seconds(seconds) - .milliseconds(500)) == 0)
        #expect(dials(&driver, after: .seconds(1)) == 1)
        // Up to 5 s, nothing is tried before.
        #expect(driver.actions.contains { if case .requestKeyframe = $0 { true } else { false } } == (seconds > 5))
    }

    @Test func withoutATimeoutTheSessionStays() throws {
        var driver = try silent { $0.mediaTimeout = nil }
        #expect(dials(&driver, after: .seconds(3600)) == 0)
        #expect(driver.warnings().map { $0.message.hasSuffix("The session continues.") } == [true])
        #expect(driver.actions.contains(.recover(driver.attempt)))
    }

    @Test func gapsOfThreeSecondsAreNoStall() throws {
        var driver = try silent()
        for _ in 0..<10 {
            driver.wait(.seconds(3), flow: .sending)
            driver.wait(.seconds(1), flow: .flowing)
        }
        #expect(driver.takeActions().isEmpty)
    }

    // MARK: The restart

    @Test func theOfferIsAnswered() throws {
        var driver = try stalled()
        driver.media(.offer(sdp: "restart"))
        driver.server(.answer(sdp: "answer"))
        #expect(driver.takeActions().last == .applyAnswer(driver.attempt, sdp: "answer"))
        driver.wait(.seconds(60), flow: .flowing)
        #expect(driver.takeActions().isEmpty)
    }

    /// A service that answers no second offer: no second warning.
    @Test func theOfferIsNotAnswered() throws {
        var driver = try stalled { $0.mediaTimeout = nil }
        driver.media(.offer(sdp: "restart"))
        _ = driver.takeActions()
        driver.wait(.seconds(11))
        #expect(driver.takeActions() == [.rollbackOffer(driver.attempt)])
    }

    @Test func noRestartWhileAnotherOfferIsInFlight() throws {
        var driver = try silent()
        driver.wait(.seconds(2))
        driver.media(.offer(sdp: "with audio"))
        driver.wait(.seconds(3.5))
        #expect(driver.actions.contains(.requestKeyframe(driver.attempt)))
        #expect(!driver.actions.contains(.recover(driver.attempt)))
    }

    @Test func aRoomIsResumed() throws {
        var driver = try MachineDriver(at: .open) { $0.transport = .livekit }
        driver.acknowledgeAll()
        driver.joinRoom()
        driver.wait(.seconds(2))
        driver.wait(.seconds(5.5), flow: .sending)
        #expect(driver.actions.contains(.requestKeyframe(driver.attempt)))
        #expect(driver.actions.contains(.recover(driver.attempt)) && driver.state == .connected)
    }

    // MARK: A path that is lost

    /// After the loss, the path has as long as any lost path, whatever the stall before it took.
    @Test func aPathThatIsLostInAStall() throws {
        var driver = try stalled { $0.mediaTimeout = nil }
        driver.wait(.seconds(600))
        driver.media(.pathLost)
        driver.wait(.seconds(4.5))
        #expect(driver.state == .connected)
        driver.wait(.seconds(1))
        #expect(driver.state == .reconnecting)
    }

    @Test func packetsWithoutAFrameAreNamed() throws {
        var driver = try silent()
        driver.flow.packetsReceived = 12
        driver.wait(.seconds(16))
        #expect(
            driver.warnings().map(\.message) == [
                "The service's video arrived, but none of it could be decoded for 5 s while frames were sent. "
                    + "The session continues; another one begins after 15 s (media-timeout).",
                "The service's video arrived, but none of it could be decoded for 15 s while frames were sent.",
            ])
    }

    /// The limit that drops a frame is named, until a frame passes it.
    @Test func theLimitOfFramesIsNamed() throws {
        var driver = try silent()
        (driver.flow.packetsReceived, driver.flow.oversizedFrames) = (12, 1)
        driver.wait(.seconds(4))
        driver.flow.oversizedFrames = 0
        driver.wait(.seconds(1.5))
        let text = "The service's video arrived, but none of it could be decoded for 5 s while frames were sent"
        let cause = ", because its frames are larger than the limit of 4 MiB."
        #expect(driver.warnings().first?.message.hasPrefix(text + cause) == true)
        driver.wait(.seconds(2), flow: .flowing)
        driver.wait(.seconds(5.5), flow: MediaTraffic(sent: 12, received: 0, packetsReceived: 12))
        #expect(driver.warnings().last?.message.hasPrefix(text + ".") == true)
    }

    // MARK: A path that is too narrow

    /// Another session would meet the same network. The message comes after 5 s, and once a minute from then on.
    @Test func lossThatLeavesNothingToDecodeIsNoStall() throws {
        var driver = try silent()
        (driver.flow.packetsReceived, driver.flow.packetsLost) = (12, 100)
        driver.wait(.seconds(5.5))
        let warning = try #require(driver.warnings().first)
        #expect(warning.message.contains("too little") && driver.takeActions() == [.report(.warning(warning))])
        // A few frames are no recovery.
        for _ in 0..<12 {
            driver.wait(.seconds(5))
            driver.flow.received = 1
            driver.wait(.milliseconds(500))
            driver.flow.received = 0
        }
        #expect(driver.takeActions() == [.report(.warning(warning))] && driver.state == .connected)
        driver.wait(.seconds(60), flow: .flowing)
        #expect(driver.takeActions().isEmpty && driver.state == .connected)
    }

    /// Packets that arrive whole, or of which few are lost, and cannot be decoded; or none arrive.
    @Test(arguments: [(12, 0), (100, 10), (0, 0)] as [(UInt64, UInt64)])
    func lossThatExplainsNothing(arrived: UInt64, lost: UInt64) throws {
        var driver = try silent()
        (driver.flow.packetsReceived, driver.flow.packetsLost) = (12, 100)
        driver.wait(.seconds(60))
        _ = driver.takeActions()
        (driver.flow.packetsReceived, driver.flow.packetsLost) = (arrived, lost)
        driver.wait(.seconds(5.5))
        #expect(driver.actions.contains(.recover(driver.attempt)))
        driver.wait(.seconds(10))
        #expect(driver.state == .reconnecting)
    }

    /// Another stream is shown, whose packets are counted from zero.
    @Test func theCountOfAnotherStream() throws {
        var driver = try silent()
        (driver.flow.packetsReceived, driver.flow.packetsLost) = (12, 100)
        driver.wait(.seconds(2))
        (driver.traffic.packetsLost, driver.flow.packetsLost) = (0, 0)
        driver.wait(.seconds(16))
        #expect(driver.state == .reconnecting)
    }

    /// No frame has come so far: the path is dead, and no stall is reported.
    @Test func beforeTheFirstMediaFiveSecondsAreTheEnd() throws {
        var driver = try MachineDriver(at: .negotiating)
        driver.flow = .sending
        driver.connectMedia()
        driver.wait(.seconds(6))
        #expect(driver.state == .reconnecting && driver.warnings().count == 1)
    }
}
