import DecartProtocol
import DecartSession
import Testing

@Suite("Session length", .timeLimit(.minutes(1)))
struct SessionLimitTests {
    static func endings(_ driver: MachineDriver) -> [Duration] {
        driver.actions.compactMap { if case .report(.ending(let left)) = $0 { left } else { nil } }
    }

    @Test func anEndIsAnnouncedAndThenComes() throws {
        var driver = try MachineDriver(at: .opening) { $0.maximumDuration = .seconds(300) }
        // The time for connecting does not count.
        driver.wait(.seconds(3))
        driver.reconnect()
        driver.wait(.seconds(269))
        #expect(Self.endings(driver).isEmpty)
        driver.wait(.seconds(1))
        #expect(Self.endings(driver) == [.seconds(30)])
        driver.wait(.seconds(29))
        #expect(driver.state == .connected)
        driver.wait(.seconds(1))
        #expect(driver.state == .error)
        #expect(driver.failures().count == 1)
        #expect(driver.failures().first?.message.lowercased().contains("session expired") == true)
        #expect(driver.failures().first?.isPermanent == true)
        #expect(driver.runningTimers.isEmpty)
        #expect(Self.endings(driver).count == 1)
    }

    @Test func extendedItLastsLonger() throws {
        var driver = try MachineDriver(at: .connected) { $0.maximumDuration = .seconds(20) }
        driver.wait(.seconds(15))
        #expect(Self.endings(driver) == [.seconds(10)])
        driver.handle(.extend(by: .seconds(100)))
        driver.wait(.seconds(74))
        #expect(Self.endings(driver).count == 1)
        driver.wait(.seconds(2))
        #expect(Self.endings(driver).count == 2)
        driver.handle(.limit(nil))
        driver.wait(.seconds(1000))
        #expect(driver.state == .connected)
        // A limit below the elapsed time ends the session at once.
        driver.handle(.limit(.seconds(5)))
        driver.wait(.zero)
        #expect(driver.state == .error)
    }

    /// The clock does not stop during reconnects, and the limit applies while nothing is connected.
    @Test func reconnectsDoNotStartItAgain() throws {
        var driver = try MachineDriver(at: .connected) { $0.maximumDuration = .seconds(10) }
        driver.wait(.seconds(6))
        driver.handle(.channelClosed(driver.attempt, code: 1001, reason: ""))
        driver.redial()
        driver.wait(.seconds(2))
        driver.handle(.channelClosed(driver.attempt, code: 1001, reason: ""))
        driver.wait(.seconds(2))
        #expect(driver.state == .error)
        #expect(driver.failures().count == 1)
        // A new start begins a new session.
        driver.handle(.start)
        driver.reconnect()
        driver.wait(.seconds(9))
        #expect(driver.state == .connected)
        driver.handle(.stop)
        #expect(driver.runningTimers.isEmpty)
    }

    @Test func withoutALimitThereIsNothingToExtend() throws {
        var driver = try MachineDriver(at: .connected)
        driver.handle(.extend(by: .seconds(1)))
        driver.wait(.seconds(100_000))
        #expect(driver.state == .connected)
        #expect(Self.endings(driver).isEmpty)
    }

    // MARK: The service's limit

    private func granted(_ seconds: Int?, own: Int? = nil) throws -> MachineDriver {
        var driver = try MachineDriver(at: .opening) { $0.maximumDuration = own.map { .seconds($0) } }
        driver.handle(.grant(driver.attempt, seconds.map { .seconds($0) }))
        driver.reconnect()
        return driver
    }

    @Test func whatTheServiceGrantsEndsTheSession() throws {
        var driver = try granted(20)
        #expect(driver.snapshot.granted == .seconds(20))
        driver.wait(.seconds(10))
        #expect(Self.endings(driver) == [.seconds(10)])
        // Only the user's own limit can be extended.
        driver.handle(.extend(by: .seconds(100)))
        driver.wait(.seconds(10))
        #expect(driver.state == .error)
        #expect(driver.failures().first?.message.hasPrefix("Session expired") == true)
        #expect(Self.endings(driver).count == 1 && driver.runningTimers.isEmpty)
    }

    @Test(arguments: [(10, 20), (20, 10)]) func theNearerEndCounts(granted seconds: Int, own: Int) throws {
        var driver = try granted(seconds, own: own)
        driver.wait(.seconds(9))
        #expect(driver.state == .connected && Self.endings(driver) == [.seconds(5)])
        driver.wait(.seconds(1))
        #expect(driver.state == .error)
    }

    /// Each new connection gets its own limit from the service.
    @Test func eachConnectionIsGrantedItsTime() throws {
        var driver = try granted(20, own: 1000)
        driver.wait(.seconds(12))
        driver.handle(.channelClosed(driver.attempt, code: 1001, reason: ""))
        driver.waitForRetry()
        #expect(driver.snapshot.granted == nil)
        driver.handle(.grant(driver.attempt, .seconds(30)))
        driver.reconnect()
        driver.wait(.seconds(14))
        #expect(driver.state == .connected)
        driver.wait(.seconds(2))
        #expect(Self.endings(driver) == [.seconds(10), .seconds(15)])
        driver.wait(.seconds(14))
        #expect(driver.state == .error)
    }

    /// The service's clock may be ahead of ours: an end close to its limit counts as expiry, without a retry.
    @Test func theServicesEndIsAnExpiry() throws {
        var driver = try granted(60)
        driver.wait(.seconds(58))
        driver.server(.generationEnded(seconds: 58, reason: "timeout"))
        #expect(driver.state == .connected)
        driver.handle(.channelClosed(driver.attempt, code: 1000, reason: "session limit"))
        #expect(driver.state == .error)
        #expect(driver.failures().first?.message.hasPrefix("Session expired") == true)
        var early = try granted(60)
        early.wait(.seconds(30))
        early.server(.generationEnded(seconds: 30, reason: "timeout"))
        early.handle(.channelClosed(early.attempt, code: 1000, reason: "session limit"))
        #expect(early.state == .reconnecting)
    }

    /// The media path may take a while; the service does not wait for it.
    @Test(arguments: [true, false]) func theServiceCountsFromTheOpenChannelOrTheEndOfTheQueue(isQueued: Bool) throws {
        var driver = try MachineDriver(at: .opening)
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        if isQueued {
            driver.server(.queuePosition(QueuePosition(position: 1)))
            driver.wait(.seconds(100))
        }
        driver.server(.status("Ready"))
        driver.acknowledgeAll()
        driver.wait(.seconds(8))
        driver.negotiate()
        driver.wait(.seconds(40))
        #expect(driver.state == .connected && Self.endings(driver).count == 1)
        driver.wait(.seconds(8))
        driver.handle(.channelClosed(driver.attempt, code: 1000, reason: "session limit"))
        #expect(driver.failures().first?.message.hasPrefix("Session expired") == true)
    }

    @Test func anOldAttemptsGrantIsNoNews() throws {
        var driver = try granted(nil)
        driver.handle(.grant(AttemptID(77), .seconds(1)))
        driver.wait(.seconds(5))
        #expect(driver.state == .connected && driver.snapshot.granted == nil)
    }
}
