import DecartProtocol
import DecartSession
import Testing

@Suite("Session length", .timeLimit(.minutes(1)))
struct SessionLimitTests {
    static func endings(_ driver: MachineDriver) -> [Duration] {
        driver.orders.compactMap { if case .report(.ending(let left)) = $0 { left } else { nil } }
    }

    @Test func anEndIsAnnouncedAndThenComes() throws {
        var driver = try MachineDriver { $0.maximumDuration = .seconds(300) }
        driver.tell(.start)
        // Connecting does not count.
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
        var driver = try MachineDriver { $0.maximumDuration = .seconds(20) }
        driver.walkToConnected()
        driver.wait(.seconds(15))
        #expect(Self.endings(driver) == [.seconds(10)])
        driver.tell(.extend(by: .seconds(100)))
        driver.wait(.seconds(74))
        #expect(Self.endings(driver).count == 1)
        driver.wait(.seconds(2))
        #expect(Self.endings(driver).count == 2)
        driver.tell(.limit(nil))
        driver.wait(.seconds(1000))
        #expect(driver.state == .connected)
        // Set below what has passed: over at once.
        driver.tell(.limit(.seconds(5)))
        driver.wait(.zero)
        #expect(driver.state == .error)
    }

    /// The clock goes on, and the end comes while nothing is connected too.
    @Test func reconnectsDoNotStartItAgain() throws {
        var driver = try MachineDriver { $0.maximumDuration = .seconds(10) }
        driver.walkToConnected()
        driver.wait(.seconds(6))
        driver.tell(.channelClosed(driver.attempt, code: 1001, reason: ""))
        driver.waitForRetry()
        driver.reconnect()
        driver.wait(.seconds(2))
        driver.tell(.channelClosed(driver.attempt, code: 1001, reason: ""))
        driver.wait(.seconds(2))
        #expect(driver.state == .error)
        #expect(driver.failures().count == 1)
        // A new start is a new session.
        driver.tell(.start)
        driver.reconnect()
        driver.wait(.seconds(9))
        #expect(driver.state == .connected)
        driver.tell(.stop)
        #expect(driver.runningTimers.isEmpty)
    }

    @Test func withoutALimitThereIsNothingToExtend() throws {
        var driver = try MachineDriver()
        driver.walkToConnected()
        driver.tell(.extend(by: .seconds(1)))
        driver.wait(.seconds(100_000))
        #expect(driver.state == .connected)
        #expect(Self.endings(driver).isEmpty)
    }
}
