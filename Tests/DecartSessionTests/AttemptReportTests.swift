import DecartProtocol
import DecartSession
import Testing

/// One report for each attempt to connect: what its phases took.
@Suite("Reports of attempts", .timeLimit(.minutes(1)))
struct AttemptReportTests {
    @Test func aDirectConnection() throws {
        var driver = try MachineDriver(at: .opening)
        driver.wait(.seconds(1))
        driver.open()
        driver.wait(.seconds(2))
        driver.acknowledgeAll()
        driver.wait(.seconds(3))
        #expect(driver.attemptReports.isEmpty)
        driver.negotiate()
        driver.wait(.seconds(100))
        let report = try #require(driver.attemptReports.first)
        #expect(driver.attemptReports.count == 1)
        #expect(report.number == 1 && !report.isRenewal && report.error == nil && report.imageSize == 0)
        #expect(report.duration == .seconds(6) && report.transport == .webrtc)
        var phases = ConnectPhases()
        (phases.opened, phases.transport, phases.upgrade) = (.seconds(1), .milliseconds(20), .milliseconds(10))
        (phases.initialAck, phases.media, phases.connected) = (.seconds(2), .seconds(3), .seconds(6))
        (phases.ice, phases.dtls) = (.milliseconds(5), .milliseconds(6))
        #expect(report.phases == phases)
    }

    @Test func aRoomBehindAQueue() throws {
        let image = try testImage()
        var driver = try MachineDriver(image: image, at: .open) { $0.transport = .livekit }
        driver.wait(.seconds(1))
        driver.server(.queuePosition(QueuePosition(position: 2)))
        driver.wait(.seconds(20))
        driver.server(.status("ready"))
        driver.wait(.seconds(2))
        driver.joinRoom()
        // Its first image is not acknowledged yet.
        #expect(driver.state == .connected && driver.attemptReports.isEmpty)
        driver.wait(.seconds(1))
        driver.acknowledgeAll()
        let report = try #require(driver.attemptReports.first)
        #expect(report.transport == .livekit && report.imageSize == image.bytes.count)
        #expect(report.phases.queue == .seconds(20) && report.phases.room == .seconds(2))
        #expect(report.phases.media == .zero && report.duration == .seconds(24))
    }

    /// Each failed one has its error, whether the session waits, retries or ends.
    @Test func failedAttempts() throws {
        var driver = try MachineDriver(maximumRetries: 1, at: .opening)
        driver.open()
        driver.server(.error("full", type: "capacity"))
        driver.wait(.seconds(10))
        driver.handle(.channelFailed(driver.attempt, SessionError(.network, "lost", stage: .connect)))
        driver.waitForRetry()
        driver.wait(.seconds(16))
        #expect(driver.state == .error)
        let reports = driver.attemptReports
        #expect(reports.map(\.number) == [1, 2, 3])
        #expect(reports.map { $0.error?.code } == [.concurrencyLimit, .network, .connectionTimeout])
        #expect(reports[2].duration == .seconds(16) && reports[2].phases == ConnectPhases())
    }

    @Test func aRenewalAndALoss() throws {
        var driver = try MachineDriver {
            $0.renewBefore = .seconds(10)
            $0.keepsMediaWhileReconnecting = true
        }
        driver.handle(.start)
        driver.handle(.grant(driver.attempt, .seconds(60)))
        driver.reconnect()
        driver.wait(.seconds(50))
        driver.reconnect()
        #expect(driver.attemptReports.map(\.isRenewal) == [false, true])
        // The loss of a connection that was reported is none of an attempt.
        driver.handle(.channelClosed(driver.attempt, code: 1011, reason: ""))
        #expect(driver.attemptReports.count == 2)
        driver.redial()
        #expect(driver.attemptReports.map(\.number) == [1, 2, 3])
    }
}
