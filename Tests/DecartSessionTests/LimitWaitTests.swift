import DecartProtocol
import DecartSession
import Testing

@Suite("The account's sessions are all in use", .timeLimit(.minutes(1)))
struct LimitWaitTests {
    enum Answer: CaseIterable { case error, close, http }

    /// Lets the current attempt meet the limit.
    private func refuse(_ driver: inout MachineDriver, _ answer: Answer, retryAfter: Duration? = nil) {
        switch answer {
        case .error:
            driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
            driver.server(.error("Concurrent session limit reached"))
        case .close:
            driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
            driver.handle(.channelClosed(driver.attempt, code: 1013, reason: ""))
        case .http:
            var error = SessionError(.concurrencyLimit, "HTTP 429.", stage: .upgrade, httpStatus: 429)
            error.retryAfter = retryAfter
            driver.handle(.channelFailed(driver.attempt, error))
        }
    }

    @Test(arguments: Answer.allCases) func itWaitsForASession(answer: Answer) throws {
        var driver = try MachineDriver(maximumRetries: 0)
        driver.jitter = 0.5
        driver.handle(.start)
        var dials: [Duration] = []
        for _ in 0..<60 {
            dials.append(driver.now)
            refuse(&driver, answer)
            #expect(driver.state == .connecting && driver.snapshot.serviceStatus == .waitingForSession)
            #expect(driver.snapshot.retries == 0 && driver.snapshot.lastError?.code == .concurrencyLimit)
            driver.waitForRetry()
        }
        let waits = zip(dials, dials.dropFirst()).map { $1 - $0 }
        #expect(waits.allSatisfy { $0 > .seconds(5.19) && $0 < .seconds(5.21) })
        // 59 waits last 307 s: reported at once, and then once a minute.
        #expect(driver.warnings().count == 6)
        #expect(driver.warnings().allSatisfy { $0.code == .concurrencyLimit && !$0.isPermanent })
        #expect(driver.warnings()[0].message.contains(answer == .http ? "429" : "end another one"))
        #expect(driver.failures().isEmpty)
        driver.reconnect()
        #expect(driver.state == .connected && driver.snapshot.serviceStatus == .ready)
        #expect(driver.snapshot.lastError == nil)
    }

    @Test func jitterKeepsThePace() throws {
        for jitter in [0, 1, -5, .nan] {
            var driver = try MachineDriver()
            driver.jitter = jitter
            driver.handle(.start)
            refuse(&driver, .close)
            driver.wait(.seconds(4.9))
            #expect(driver.opens() == 1)
            driver.wait(.seconds(0.6))
            #expect(driver.opens() == 2)
        }
    }

    /// Up to a minute: a service, or a middlebox, may ask for hours.
    @Test(arguments: [(50, 50), (60, 60), (65_535, 60)]) func retryAfterIsAdvice(asked: Int, waited: Int) throws {
        var driver = try MachineDriver(at: .opening)
        refuse(&driver, .http, retryAfter: .seconds(asked))
        driver.wait(.seconds(waited - 1))
        #expect(driver.opens() == 1)
        driver.wait(.seconds(1))
        #expect(driver.opens() == 2)
        refuse(&driver, .http, retryAfter: .seconds(1))
        driver.wait(.seconds(4))
        #expect(driver.opens() == 2)
    }

    /// The JavaScript SDK of October 2026: the word, the seconds, then close code 1013.
    @Test(
        arguments: [
            (15, 15), (7.5, 7.5), (0, 5), (-3, 5), (1e300, 60), (3600, 60), (nil, 5),
        ] as [(Double?, Double)])
    func capacityNamesTheWait(asked: Double?, waited: Double) throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .opening)
        for dial in 1...4 {
            driver.open()
            driver.server(.error("Please wait.", type: "capacity", retryAfter: asked))
            driver.handle(.channelClosed(driver.attempt, code: 1013, reason: ""))
            #expect(driver.state == .connecting && driver.snapshot.serviceStatus == .waitingForSession)
            #expect(driver.snapshot.retries == 0)
            driver.wait(.seconds(waited - 0.5))
            #expect(driver.opens() == dial)
            driver.wait(.seconds(0.5))
            #expect(driver.opens() == dial + 1)
        }
        // At once, and then once a minute.
        let minutes = Int(4 * waited / 60)
        #expect(driver.warnings().count == 1 + minutes && driver.warnings()[0].code == .concurrencyLimit)
        #expect(driver.failures().isEmpty)
    }

    /// A session that is told to wait, and then closed, dials no earlier; other errors wait as well.
    @Test(arguments: [(Optional("capacity"), 1013), ("internal_error", 1011), (nil, 1001)])
    func aClosedSessionWaitsAsRequested(word: String?, code: Int) throws {
        var driver = try MachineDriver.connected()
        driver.server(.error("Draining.", type: word, retryAfter: 20))
        driver.handle(.channelClosed(driver.attempt, code: code, reason: ""))
        #expect(driver.state == .reconnecting)
        driver.wait(.seconds(19))
        #expect(driver.opens() == 0)
        driver.wait(.seconds(2))
        #expect(driver.opens() == 1)
    }

    /// The session whose channel fell silent is one of those in use until its channel is closed.
    @Test func thePreviousSessionMakesRoom() throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.handle(.channelSilent(old, SessionError(.webSocket, "no answer to a ping", stage: .channel)))
        driver.waitForRetry()
        #expect(!driver.actions.contains(.closeChannel(old)))
        refuse(&driver, .http)
        #expect(driver.actions.contains(.closeChannel(old)) && !driver.actions.contains(.stopMedia(old)))
    }

    @Test func aWrongKeyFailsAtOnce() throws {
        var driver = try MachineDriver(at: .opening)
        refuse(&driver, .error)
        driver.waitForRetry()
        driver.server(.error("Unauthorized: concurrent session limit reached"))
        #expect(driver.state == .error && driver.failures().first?.code == .invalidAPIKey)
        #expect(driver.runningTimers.isEmpty)
    }

    @Test(arguments: [(0, 1), (4, 1), (12, 3)]) func theWaitHasAnEnd(seconds: Int, dials: Int) throws {
        var driver = try MachineDriver(at: .opening) { $0.limitWait = .seconds(seconds) }
        for _ in 0..<dials {
            #expect(driver.state == .connecting)
            refuse(&driver, .error)
            driver.waitForRetry()
        }
        #expect(driver.state == .error && driver.opens() == dials && driver.failures().count == 1)
        #expect(driver.failures()[0].code == .concurrencyLimit)
        #expect(driver.failures()[0].message.contains("limit-wait"))
        #expect(driver.warnings().count == (dials == 1 ? 0 : 1) && driver.runningTimers.isEmpty)
    }

    /// Other failures in between are counted as always, and each wait has its own time.
    @Test func itIsNotARetry() throws {
        var driver = try MachineDriver(maximumRetries: 1, at: .opening) { $0.limitWait = .seconds(12) }
        driver.handle(.channelFailed(driver.attempt, SessionError(.network, "lost", stage: .channel)))
        driver.waitForRetry()
        for answer in Answer.allCases {
            refuse(&driver, answer)
            #expect(driver.snapshot.retries == 1)
            driver.waitForRetry()
        }
        #expect(driver.state == .error)
        driver.handle(.start)
        for _ in 0..<3 {
            _ = driver.takeActions()
            refuse(&driver, .close)
            #expect(driver.warnings().map(\.code) == [.concurrencyLimit], "each wait is reported")
            driver.redial()
            driver.wait(.seconds(40))
            driver.handle(.channelClosed(driver.attempt, code: 1001, reason: ""))
            #expect(driver.state == .reconnecting)
            driver.waitForRetry()
        }
    }

    @Test func aRequestWaitsToo() throws {
        var driver = try MachineDriver(at: .opening)
        let request = try driver.update("Noir")
        driver.open()
        driver.server(.error("Concurrent session limit reached"))
        #expect(driver.results().isEmpty)
        driver.redial()
        #expect(driver.results().map(\.id) == [request] && driver.results()[0].isAccepted)
    }

    @Test func aStopEndsTheWait() throws {
        var driver = try MachineDriver(at: .opening)
        refuse(&driver, .error)
        driver.handle(.stop)
        #expect(driver.state == .disconnected && driver.runningTimers.isEmpty)
        driver.handle(.start)
        #expect(driver.snapshot.serviceStatus == .unknown)
    }

    /// A running session that closes with 1013 is lost like any other; the limit may be met afterwards.
    @Test func aRunningSessionIsLost() throws {
        var driver = try MachineDriver(at: .connected)
        driver.server(.error("Concurrent session limit reached"))
        #expect(driver.state == .connected)
        driver.handle(.channelClosed(driver.attempt, code: 1013, reason: ""))
        #expect(driver.state == .reconnecting && driver.snapshot.retries == 1)
        driver.waitForRetry()
        refuse(&driver, .close)
        #expect(driver.state == .reconnecting && driver.snapshot.retries == 1)
        #expect(driver.snapshot.serviceStatus == .waitingForSession)
    }
}
