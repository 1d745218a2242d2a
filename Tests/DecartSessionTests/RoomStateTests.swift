import DecartProtocol
import DecartSession
import Testing

/// What a room reports about its media: states that are no stalls, and a stay that is lost while the session lives.
@Suite("The machine: states and losses of a room", .timeLimit(.minutes(1)))
struct RoomStateTests {
    private static let again = MediaStart.room(url: "wss://room.example", token: Secret("fresh"))
    private static let lost = SessionError(.webRTC, "The room closed the session.", stage: .media)

    /// A session in a room whose media flow, two seconds after its first frame.
    private func inRoom(
        showsFrame: Bool = true, change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> MachineDriver {
        var driver = try MachineDriver(at: .open) {
            $0.transport = .livekit
            $0.keepsMediaWhileReconnecting = true
            change(&$0)
        }
        driver.acknowledgeAll()
        driver.joinRoom()
        if showsFrame {
            driver.media(.firstFrame)
            driver.wait(.seconds(2))
        }
        _ = driver.takeActions()
        return driver
    }

    // MARK: Holds

    /// Also from the first frame on.
    @Test(arguments: [MediaHold.pausedByNetwork, .mutedBySender], [true, false])
    func aHoldIsNoStall(hold: MediaHold, showsFrame: Bool) throws {
        var driver = try inRoom(showsFrame: showsFrame)
        driver.media(.hold(hold))
        #expect(driver.snapshot.hold == hold)
        driver.wait(.milliseconds(4999), flow: .sending)
        #expect(driver.takeActions().isEmpty)
        driver.wait(.milliseconds(1))
        let warning = try #require(driver.warnings().first)
        #expect(warning.message.contains("network") == (hold == .pausedByNetwork))
        #expect(driver.takeActions() == [.report(.warning(warning))])
        // Once a minute, and nothing else happens.
        driver.wait(.seconds(600))
        #expect(driver.takeActions() == Array(repeating: .report(.warning(warning)), count: 10))
        #expect(driver.state == .connected)
        // Media are due again from the end of the hold on.
        driver.media(.hold(nil))
        driver.wait(.seconds(4))
        #expect(driver.takeActions().isEmpty && driver.snapshot.hold == nil)
        driver.wait(.seconds(16))
        #expect(driver.warnings().count >= 1 && driver.state == .reconnecting)
    }

    @Test func aShortHoldIsNotReported() throws {
        var driver = try inRoom()
        for _ in 0..<10 {
            driver.media(.hold(.pausedByNetwork))
            driver.wait(.seconds(4), flow: .sending)
            driver.media(.hold(nil))
            driver.wait(.seconds(1), flow: .flowing)
        }
        #expect(driver.takeActions().isEmpty)
    }

    /// The message about its end was lost, as with the signalling connection.
    @Test func mediaEndAHold() throws {
        var driver = try inRoom()
        driver.media(.hold(.pausedByNetwork))
        // Those in flight do not.
        driver.wait(.seconds(1), flow: .flowing)
        #expect(driver.snapshot.hold == .pausedByNetwork)
        driver.wait(.seconds(1), flow: .sending)
        driver.wait(.seconds(1), flow: .flowing)
        #expect(driver.snapshot.hold == .pausedByNetwork)
        driver.wait(.seconds(60), flow: .flowing)
        #expect(driver.snapshot.hold == nil && driver.takeActions().isEmpty)
        // It may begin again, and a stall without one is a stall.
        driver.media(.hold(.pausedByNetwork))
        driver.wait(.seconds(30), flow: .sending)
        #expect(driver.warnings().count == 1 && driver.state == .connected)
        driver.wait(.seconds(10), flow: .flowing)
        driver.wait(.seconds(20), flow: .sending)
        #expect(driver.state == .reconnecting)
    }

    /// A path that dies during a hold is lost as any other.
    @Test func aLostPathEndsAHold() throws {
        var driver = try inRoom()
        driver.media(.hold(.pausedByNetwork))
        driver.media(.pathLost)
        driver.wait(.seconds(5.5), flow: .sending)
        #expect(driver.state == .reconnecting)
    }

    @Test func ourOwnMuteByTheRoomIsReported() throws {
        var driver = try inRoom()
        driver.media(.videoMuted(true))
        driver.wait(.seconds(65), flow: .nothing)
        #expect(driver.warnings().count == 2)
        #expect(driver.warnings().allSatisfy { $0.message.contains("muted our video") })
        driver.media(.videoMuted(false))
        driver.wait(.seconds(100), flow: .flowing)
        #expect(driver.warnings().count == 2 && driver.opens() == 0)
    }

    // MARK: Joining again

    @Test func aLostRoomIsJoinedAgain() throws {
        var driver = try inRoom()
        let id = driver.attempt
        driver.server(.generationTick(seconds: 1))
        _ = driver.takeActions()
        driver.media(.lost(Self.lost, again: Self.again))
        let actions = driver.takeActions().filter { if case .report(.note) = $0 { false } else { true } }
        #expect(actions == [.stopMedia(id), .startMedia(id, Self.again)])
        #expect(driver.state == .reconnecting)
        // Prompts go on: the control channel lives.
        try driver.update("Another World")
        #expect(driver.sent() == [.text("Another World")])
        driver.wait(.seconds(1))
        driver.media(.connected(ice: nil, dtls: nil))
        driver.media(.firstFrame)
        driver.wait(.seconds(60))
        #expect(driver.state == .generating && driver.opens() == 0 && driver.warnings().isEmpty)
        // It can be lost again.
        driver.media(.lost(Self.lost, again: Self.again))
        #expect(driver.startsMedia())
        driver.handle(.stop)
        #expect(driver.runningTimers.isEmpty)
    }

    /// A new session begins if the room is not joined within 5 s, cannot be joined, or is lost again at once. The reason
    /// is that of the loss.
    @Test(arguments: ["time", "failure", "close", "loss", "channel"])
    func aRoomThatCannotBeJoinedAgain(way: String) throws {
        var driver = try inRoom()
        let old = driver.attempt
        driver.media(.lost(Self.lost, again: Self.again))
        let other = SessionError(.webRTC, "No path.", stage: .media)
        switch way {
        case "time":
            driver.wait(.milliseconds(4999))
            #expect(driver.warnings().isEmpty)
            driver.wait(.milliseconds(1))
        case "failure": driver.media(.failed(other))
        case "close":
            driver.media(.closedByPeer(other))
            driver.wait(.milliseconds(250))
        case "loss":
            driver.media(.connected(ice: nil, dtls: nil))
            driver.wait(.seconds(2))
            driver.media(.lost(Self.lost, again: Self.again))
        default: driver.handle(.channelFailed(old, Self.lost))
        }
        #expect(driver.warnings() == [Self.lost] && driver.state == .reconnecting)
        #expect(driver.hasEnded(old))
        driver.waitForRetry()
        #expect(driver.opens() == 1)
    }

    /// The service has named the cause of the end before: joining again would be refused, and billed.
    @Test func aRoomThatIsLostForACauseIsNotJoinedAgain() throws {
        var driver = try inRoom()
        driver.server(.generationEnded(seconds: 5, reason: "insufficient credits"))
        driver.media(.lost(Self.lost, again: Self.again))
        #expect(driver.state == .error && !driver.startsMedia())
    }

    // MARK: A successor beside a room without signalling

    private func isolated(
        change: (inout SessionConfiguration) -> Void = { _ in }
    ) throws -> (driver: MachineDriver, old: AttemptID) {
        var driver = try inRoom(change: change)
        let old = driver.attempt
        driver.media(.recovering(Self.lost))
        #expect(driver.takeActions() == [.recover(old)])
        driver.wait(.milliseconds(29_999))
        #expect(driver.takeActions().isEmpty)
        driver.wait(.milliseconds(1))
        return (driver, old)
    }

    @Test func anotherSessionIsSetUpBesideAnIsolatedOne() throws {
        var (driver, old) = try isolated()
        #expect(driver.opens() == 1 && driver.warnings().count == 1 && driver.state == .connected)
        driver.handle(.media(old, .recovering(Self.lost)))
        #expect(driver.opens() == 1)
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        driver.acknowledgeAll()
        driver.joinRoom()
        #expect(!driver.hasEnded(old))
        driver.media(.firstFrame)
        #expect(driver.hasEnded(old) && driver.state == .connected)
    }

    /// The running session goes on where another one is refused, or is no longer needed.
    @Test func theIsolatedSessionGoesOn() throws {
        var (driver, old) = try isolated()
        let full = SessionError(.concurrencyLimit, "Concurrent session limit reached.", stage: .initialState)
        driver.handle(.channelFailed(driver.attempt, full))
        driver.wait(.milliseconds(29_999))
        #expect(driver.state == .connected && driver.opens() == 1 && driver.failures().isEmpty)
        driver.wait(.milliseconds(1))
        #expect(driver.opens() == 2)
        let next = driver.attempt
        driver.handle(.media(old, .recovered))
        #expect(driver.actions.contains(.closeChannel(next)) && driver.state == .connected)
        driver.wait(.seconds(300))
        #expect(driver.opens() == 2)
        // A permanent refusal is not repeated.
        driver.handle(.media(old, .recovering(Self.lost)))
        driver.wait(.seconds(30))
        driver.handle(
            .channelFailed(
                driver.attempt, SessionError(.invalidAPIKey, "The key is wrong.", stage: .upgrade, isPermanent: true)))
        driver.wait(.seconds(300))
        #expect(driver.opens() == 3 && driver.state == .connected && driver.failures().isEmpty)
    }

    /// The element cannot keep media while it reconnects: the session relies on the room alone.
    @Test func anIsolatedSessionWithoutASuccessor() throws {
        var (driver, old) = try isolated { $0.keepsMediaWhileReconnecting = false }
        driver.wait(.seconds(300))
        #expect(driver.opens() == 0 && driver.warnings().isEmpty && driver.state == .connected)
        driver.flow = .nothing
        driver.handle(.media(old, .pathLost))
        driver.wait(.seconds(30))
        #expect(driver.warnings() == [Self.lost] && driver.state == .reconnecting && driver.hasEnded(old))
    }

    /// The media of an isolated session end too.
    @Test func anIsolatedSessionLosesItsPath() throws {
        var (driver, old) = try isolated()
        driver.handle(.channelFailed(driver.attempt, Self.lost))
        _ = driver.takeActions()
        driver.flow = .nothing
        driver.handle(.media(old, .pathLost))
        driver.wait(.milliseconds(4999))
        #expect(driver.state == .connected)
        driver.wait(.milliseconds(1))
        #expect(driver.warnings() == [Self.lost] && driver.state == .reconnecting && driver.hasEnded(old))
    }

    /// Each attempt to recover that fails is reported; only the first one and a changed network are answered.
    @Test func aChangedNetworkHurriesTheRoom() throws {
        var driver = try inRoom()
        let id = driver.attempt
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.takeActions().isEmpty)
        for _ in 0..<3 { driver.media(.recovering(Self.lost)) }
        #expect(driver.takeActions() == [.recover(id)])
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.takeActions() == [.recover(id)])
        driver.media(.recovered)
        driver.handle(.networkChanged(lost: nil))
        #expect(driver.takeActions().isEmpty && driver.state == .connected)
    }

    /// The room is recovered in each role in which its frames count.
    @Test func aSuspendedOrLingeringRoomIsRecovered() throws {
        var driver = try inRoom()
        let lingering = driver.attempt
        driver.handle(.channelFailed(lingering, SessionError(.webSocket, "reset", stage: .channel)))
        #expect(driver.state == .reconnecting && !driver.hasEnded(lingering))
        _ = driver.takeActions()
        driver.handle(.media(lingering, .recovering(Self.lost)))
        #expect(driver.takeActions() == [.recover(lingering)])

        driver = try inRoom()
        let suspended = driver.attempt
        driver.flow = .sending
        driver.media(.pathLost)
        driver.wait(.seconds(6))
        #expect(driver.state == .reconnecting && !driver.hasEnded(suspended))
        _ = driver.takeActions()
        driver.handle(.media(suspended, .recovering(Self.lost)))
        #expect(driver.takeActions() == [.recover(suspended)])
    }
}
