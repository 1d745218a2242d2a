import DecartProtocol
import DecartSession
import Testing

@Suite("The machine: retries, time-outs, queue, watchdog", .timeLimit(.minutes(1)))
struct ReconnectTests {
    private static let lost = SessionError(.network, "lost", stage: .channel)

    @Test func backOffTable() {
        var backOff = BackOff(maximumDelay: .seconds(10))
        #expect((0..<8).map { _ in backOff.next(jitter: 0) } == [1, 2, 4, 8, 10, 10, 10, 10].map { .seconds($0) })
        backOff.reset()
        #expect(backOff.next(jitter: 1) == .seconds(0.8))
        #expect(backOff.next(jitter: 0.5) == .seconds(1.8))
        // Jitter outside 0…1 stays within the bounds.
        #expect(backOff.next(jitter: -3) == .seconds(4))
        #expect(backOff.next(jitter: .nan) == .seconds(8))
        var long = BackOff(maximumDelay: .seconds(3600))
        let waits = (0..<14).map { _ in long.next(jitter: 0) }
        #expect(waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600].map { .seconds($0) })
        var short = BackOff(maximumDelay: .seconds(3))
        #expect((0..<4).map { _ in short.next(jitter: 0) } == [1, 2, 3, 3].map { .seconds($0) })
        var none = BackOff(maximumDelay: .seconds(-1))
        #expect(none.next(jitter: 0) == .zero)
    }

    /// Attempts that fail at once are repeated at 1, 3, 7, 15, 25 s; then comes one error.
    @Test func firstConnectionIsRetriedLikeALostOne() throws {
        var driver = try MachineDriver(at: .opening)
        var dials: [Duration] = []
        for _ in 0..<6 {
            dials.append(driver.now)
            #expect(driver.state == .connecting)
            driver.handle(.channelFailed(driver.attempt, ReconnectTests.lost))
            driver.waitForRetry()
        }
        #expect(dials == [0, 1, 3, 7, 15, 25].map { .seconds($0) })
        #expect(driver.opens() == 6)
        #expect(driver.warnings().count == 5)
        #expect(driver.failures().count == 1)
        #expect(driver.failures().first?.message == "lost. Gave up after 5 retries; max-retries allows more.")
        #expect(driver.state == .error)
        driver.wait(.seconds(100))
        #expect(driver.opens() == 6)
    }

    @Test func dialTimesAfterALoss() throws {
        var driver = try MachineDriver(at: .connected)
        let start = driver.now
        driver.handle(.channelClosed(driver.attempt, code: 1012, reason: ""))
        #expect(driver.state == .reconnecting)
        var dials: [Duration] = []
        var seen = driver.attempt
        while driver.state == .reconnecting {
            driver.wait(.milliseconds(100))
            if driver.attempt != seen {
                seen = driver.attempt
                dials.append(driver.now - start)
                driver.handle(.channelFailed(seen, ReconnectTests.lost))
            }
        }
        #expect(dials == [1, 3, 7, 15, 25].map { .seconds($0) })
        #expect(driver.failures().count == 1)
    }

    /// Each attempt has the same limits, as in Decart's SDKs: a service that is slow to answer is slow in a retry too.
    @Test(arguments: [7, 14]) func lateAnswersInEachRetrySucceed(seconds: Int) throws {
        var driver = try MachineDriver(at: .connected)
        for retry in 1...5 {
            driver.handle(.channelClosed(driver.attempt, code: 1012, reason: ""))
            _ = driver.takeActions()
            driver.waitForRetry()
            #expect(driver.actions.contains(.openChannel(driver.attempt, .webrtc, timeout: .seconds(15))))
            driver.wait(.seconds(seconds))
            driver.open()
            driver.wait(.seconds(seconds))
            driver.acknowledgeAll()
            driver.wait(.seconds(seconds))
            driver.negotiate()
            #expect(driver.state == .connected && driver.snapshot.retries == retry && driver.opens() == 1)
        }
    }

    @Test func hangingDials() throws {
        var driver = try MachineDriver(at: .connected)
        _ = driver.takeActions()
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        driver.waitForRetry()
        let dial = driver.attempt
        // The channel enforces its timeout; if it fails to, the machine does so a second later.
        driver.wait(.milliseconds(15_999))
        #expect(driver.warnings().count == 1)
        driver.wait(.milliseconds(1))
        #expect(driver.warnings().last?.code == .connectionTimeout && driver.actions.contains(.closeChannel(dial)))
        // It opens all the same: the controller has closed it, and nothing is sent.
        _ = driver.takeActions()
        driver.handle(.channelOpened(dial, transport: nil, upgrade: nil))
        #expect(driver.takeActions().isEmpty)
    }

    @Test(arguments: [true, false]) func noRetriesMeansOneError(permanent: Bool) throws {
        var driver = try MachineDriver(maximumRetries: permanent ? 5 : 0, at: .opening)
        let error = SessionError(.network, "Unknown host x.", stage: .resolve, isPermanent: permanent)
        driver.handle(.channelFailed(driver.attempt, error))
        #expect(driver.failures() == [error])
        #expect(driver.warnings() == [])
        #expect(driver.state == .error && driver.snapshot.lastError == error)
        #expect(driver.runningTimers.isEmpty)
        driver.wait(.seconds(60))
        #expect(driver.opens() == 1)
    }

    @Test func forEver() throws {
        var driver = try MachineDriver(maximumRetries: nil, at: .opening)
        for _ in 0..<200 {
            driver.handle(.channelFailed(driver.attempt, ReconnectTests.lost))
            driver.waitForRetry()
        }
        #expect(driver.state == .connecting)
        #expect(driver.opens() == 201)
    }

    @Test func countStartsAgainAfterAStableConnection() throws {
        var driver = try MachineDriver(maximumRetries: 2, at: .connected)
        for round in 0..<4 {
            driver.handle(.channelClosed(driver.attempt, code: 1006, reason: ""))
            driver.wait(.seconds(2))
            driver.reconnect()
            #expect(driver.state == .connected, "round \(round)")
            driver.wait(.seconds(31))
            #expect(driver.snapshot.retries == 0)
        }
        // A connection that was not stable for long enough does not reset the retry budget.
        for _ in 0..<2 {
            driver.handle(.channelClosed(driver.attempt, code: 1006, reason: ""))
            driver.wait(.seconds(2))
            driver.reconnect()
            driver.wait(.seconds(1))
        }
        driver.handle(.channelClosed(driver.attempt, code: 1006, reason: ""))
        #expect(driver.state == .error)
        #expect(driver.failures().count == 1)
    }

    @Test func permanentErrorTexts() throws {
        for text in [
            "HTTP 401", "Unauthorized", "Invalid API key!", "session expired", "not allowed", "INVALID_SESSION",
        ] {
            var driver = try MachineDriver(at: .connected)
            driver.server(.error(text))
            #expect(driver.state == .error, "\(text)")
            #expect(driver.failures().count == 1)
            var closed = try MachineDriver(at: .connected)
            closed.handle(.channelClosed(closed.attempt, code: 1008, reason: text))
            #expect(closed.state == .error, "\(text)")
        }
        var driver = try MachineDriver(at: .connected)
        driver.server(.error("frame 14012 was late"))
        #expect(driver.state == .connected)
        #expect(driver.warnings().count == 1)
        driver.handle(.channelClosed(driver.attempt, code: 1011, reason: "frame 14012"))
        #expect(driver.state == .reconnecting)
    }

    @Test func initialAckHasItsOwnClock() throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .awaitingInitialAck)
        driver.wait(.milliseconds(29_999))
        #expect(driver.state == .connecting)
        driver.wait(.milliseconds(1))
        #expect(driver.state == .error)
        #expect(driver.failures().first?.code == .connectionTimeout)
        #expect(driver.failures().first?.stage == .initialState)
    }

    @Test func mediaHasItsOwnClock() throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .awaitingInitialAck)
        driver.wait(.seconds(20))
        driver.acknowledgeAll()
        driver.wait(.milliseconds(14_999))
        #expect(driver.state == .connecting)
        driver.wait(.milliseconds(1))
        #expect(driver.failures().first?.stage == .media)
    }

    @Test func queueStopsTheClocks() throws {
        var driver = try MachineDriver(at: .open)
        driver.server(.status("Entering queue"))
        #expect(driver.snapshot.serviceStatus == .enteringQueue)
        for position in stride(from: 12, to: 0, by: -1) {
            driver.server(.queuePosition(QueuePosition(position: position, size: 12)))
            #expect(driver.snapshot.queue == QueuePosition(position: position, size: 12))
            driver.wait(.seconds(50))
        }
        #expect(driver.sent() == [])
        #expect(driver.state == .connecting)
        driver.server(.status("ready"))
        #expect(driver.snapshot.queue == nil && driver.snapshot.serviceStatus == .ready)
        #expect(driver.sent() == [.text("Lego World")])
        driver.acknowledgeAll()
        driver.negotiate()
        #expect(driver.state == .connected)
        #expect(driver.failures() == [] && driver.warnings() == [])
    }

    @Test func aQueueThatIsToldLateStopsTheClockToo() throws {
        var driver = try MachineDriver(at: .awaitingInitialAck)
        #expect(driver.sent() == [.text("Lego World")])
        driver.server(.queuePosition(QueuePosition(position: 1)))
        driver.wait(.seconds(600))
        #expect(driver.state == .connecting)
        _ = driver.takeActions()
        driver.server(.status("ready"))
        // A message sent before the queue may be lost, so it is sent again, and its timeout starts here.
        #expect(driver.sent() == [.text("Lego World")])
        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: true)))
        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: true)))
        #expect(driver.actions.count { if case .startMedia = $0 { true } else { false } } == 1)
    }

    @Test func anAckInTheQueueCounts() throws {
        var driver = try MachineDriver(at: .awaitingInitialAck)
        driver.server(.queuePosition(QueuePosition(position: 1)))
        driver.server(.promptAck(PromptAck(prompt: "Lego World", success: true)))
        #expect(driver.startsMedia())
    }

    @Test func servedFromTheQueueWithoutAWord() throws {
        var driver = try MachineDriver(at: .negotiating)
        driver.media(.offer(sdp: "offer"))
        driver.server(.queuePosition(QueuePosition(position: 2)))
        let id = try driver.update("while waiting")
        driver.wait(.seconds(14))
        #expect(driver.state == .connecting && driver.results() == [])
        driver.server(.answer(sdp: "answer"))
        driver.media(.connected(ice: nil, dtls: nil))
        #expect(driver.snapshot.queue == nil && driver.snapshot.serviceStatus == .ready)
        #expect(driver.sent().last == .text("while waiting"))
        driver.wait(.seconds(1))
        driver.server(.promptAck(PromptAck(prompt: "while waiting", success: true)))
        #expect(driver.results().map(\.id) == [id])
    }

    /// A service queues before the offer; behind that, the wait is bounded, however often it tells of the queue.
    @Test func aQueueBehindTheOfferHasTheTimeout() throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .negotiating)
        driver.media(.offer(sdp: "offer"))
        for _ in 0..<14 {
            driver.server(.queuePosition(QueuePosition(position: 2)))
            driver.server(.status("ready"))
            driver.wait(.seconds(1))
        }
        #expect(driver.state == .connecting)
        driver.wait(.seconds(1))
        #expect(driver.failures().first?.code == .connectionTimeout)
    }

    @Test func errorInTheQueue() throws {
        var driver = try MachineDriver(maximumRetries: 0, at: .open)
        driver.server(.queuePosition(QueuePosition(position: 1)))
        driver.server(.error("queue is full"))
        #expect(driver.failures().first?.code == .queue)
    }

    @Test func aSilentInputIsNoDeadPath() throws {
        var driver = try MachineDriver(at: .connected)
        driver.wait(.seconds(600), flow: .nothing)
        #expect(driver.state == .connected)
    }

    @Test func aStoppedProcessIsNoDeadPath() throws {
        var driver = try MachineDriver(at: .connected)
        driver.wait(.seconds(2))
        driver.flow = .sending
        driver.sleep(.seconds(300))
        #expect(driver.state == .connected)
        driver.wait(.seconds(2), flow: .flowing)
        #expect(driver.state == .connected)
    }

    @Test(arguments: [(7, 7), (0, 1), (3600, 60)]) func theServiceSaysWhenToComeBack(asked: Int, waited: Int) throws {
        var driver = try MachineDriver(at: .opening)
        var busy = SessionError(.server, "busy", stage: .upgrade, httpStatus: 503)
        busy.retryAfter = .seconds(asked)
        driver.handle(.channelFailed(driver.attempt, busy))
        _ = driver.takeActions()
        driver.wait(.seconds(waited) - .milliseconds(1))
        #expect(driver.opens() == 0)
        driver.wait(.milliseconds(1))
        #expect(driver.opens() == 1)
    }

    /// Every fault in every phase leads to a retry, and the next attempt works.
    @Test func everyFaultInEveryPhase() throws {
        let faults: [(String, (inout MachineDriver) -> Void)] = [
            ("closed", { $0.handle(.channelClosed($0.attempt, code: 1001, reason: "going away")) }),
            ("cut", { $0.handle(.channelClosed($0.attempt, code: nil, reason: "")) }),
            ("failed", { $0.handle(.channelFailed($0.attempt, ReconnectTests.lost)) }),
        ]
        for (phase, walk) in MachineDriver.phases {
            for (fault, strike) in faults {
                var driver = try MachineDriver()
                walk(&driver)
                let wasConnected = driver.state.isConnected
                strike(&driver)
                #expect(driver.state == (wasConnected ? .reconnecting : .connecting), "\(fault) while \(phase)")
                #expect(driver.warnings().count == 1, "\(fault) while \(phase)")
                #expect(driver.runningTimers == [.retry], "\(fault) while \(phase): \(driver.runningTimers)")
                _ = driver.takeActions()
                driver.wait(.seconds(1))
                #expect(driver.opens() == 1)
                driver.reconnect()
                #expect(driver.state == .connected, "\(fault) while \(phase)")
                driver.handle(.stop)
                #expect(driver.runningTimers.isEmpty)
            }
        }
    }

    @Test func jitterShortensTheWait() throws {
        var driver = try MachineDriver()
        driver.jitter = 1
        driver.walkToConnected()
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        _ = driver.takeActions()
        driver.wait(.seconds(0.8))
        #expect(driver.opens() == 1)
    }

    @Test func mediaOutlivesTheChannelWhenAsked() throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.handle(.channelClosed(old, code: nil, reason: ""))
        #expect(!driver.actions.contains(.stopMedia(old)))
        driver.wait(.seconds(1))
        driver.reconnectMedia()
        #expect(!driver.actions.contains(.stopMedia(old)))
        // The old path stops at the first frame of the new path.
        driver.media(.firstFrame)
        #expect(driver.actions.contains(.stopMedia(old)))
        driver.handle(.stop)
        #expect(driver.actions.count { $0 == .stopMedia(old) } == 1)
        #expect(driver.runningTimers.isEmpty)
    }

    /// The next session is lost before its first frame.
    @Test func oneOldMediaPathIsKept() throws {
        var (driver, first) = try MachineDriver.keepingMedia()
        driver.handle(.channelClosed(first, code: 1006, reason: ""))
        driver.waitForRetry()
        driver.reconnectMedia()
        #expect(!driver.actions.contains(.stopMedia(first)))
        driver.handle(.channelClosed(driver.attempt, code: 1006, reason: ""))
        #expect(driver.actions.contains(.stopMedia(first)) && !driver.actions.contains(.stopMedia(driver.attempt)))
    }

    /// The service would end the media if a late close reached it, as after a loss of TCP only.
    @Test func aSilentChannelIsClosedWithItsMedia() throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.handle(.channelSilent(old, ReconnectTests.lost))
        #expect(driver.state == .reconnecting && driver.warnings().count == 1)
        driver.waitForRetry()
        driver.reconnectMedia()
        #expect(!driver.actions.contains(.closeChannel(old)) && !driver.actions.contains(.stopMedia(old)))
        driver.media(.firstFrame)
        #expect(driver.hasEnded(old))
    }

    @Test(arguments: [true, false]) func anOldMediaPathThatDiesIsLetGo(isSilent: Bool) throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.handle(.channelClosed(old, code: nil, reason: ""))
        if isSilent {
            driver.wait(.seconds(0.9), flow: .sending)
            driver.wait(.seconds(6))
        } else {
            driver.handle(.media(old, .failed(SessionError(.webRTC, "consent", stage: .media))))
        }
        #expect(driver.actions.contains(.stopMedia(old)))
        #expect(driver.failures() == [])
    }

    /// The application stops while the old media path is still shown. The path stops at once and exactly once, before
    /// and after the retry's start.
    @Test(arguments: [false, true]) func stopEndsTheOldMediaPath(hasDialled: Bool) throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.handle(.channelClosed(old, code: nil, reason: ""))
        if hasDialled {
            driver.waitForRetry()
            driver.open()
            driver.acknowledgeAll()
        }
        #expect(!driver.actions.contains(.stopMedia(old)))
        driver.handle(.stop)
        #expect(driver.actions.count { $0 == .stopMedia(old) } == 1)
        #expect(driver.state == .disconnected && driver.runningTimers.isEmpty)
    }

    /// No media for a second when the channel closes, or a path that fails.
    @Test(arguments: [true, false]) func aDeadMediaPathIsNotKept(isSilent: Bool) throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        if isSilent {
            driver.wait(.seconds(1), flow: .sending)
            driver.handle(.channelClosed(old, code: nil, reason: ""))
        } else {
            driver.media(.failed(SessionError(.webRTC, "consent", stage: .media)))
        }
        #expect(driver.state == .reconnecting)
        #expect(driver.actions.contains(.stopMedia(old)))
        #expect(driver.runningTimers == [.retry])
    }

    // MARK: Media closed by the service

    private static let closed = SessionError(.webRTC, "closed", stage: .media)

    /// The control channel names the cause of an end better than the media path, which may close first.
    @Test(arguments: [SessionError(.network, "reset", stage: .channel), nil])
    func theChannelNamesTheCauseOfClosedMedia(cause: SessionError?) throws {
        var (driver, old) = try MachineDriver.keepingMedia()
        driver.media(.closedByPeer(Self.closed))
        driver.wait(.milliseconds(200))
        #expect(driver.state == .connected && driver.warnings().isEmpty)
        driver.handle(
            cause.map { .channelFailed(old, $0) } ?? .channelClosed(old, code: 1012, reason: "restart"))
        #expect(driver.warnings().map(\.code) == [cause?.code ?? .webSocket])
        #expect(driver.state == .reconnecting && driver.actions.contains(.stopMedia(old)))
        #expect(driver.runningTimers == [.retry])
    }

    @Test func closedMediaEndTheSessionWithoutACause() throws {
        var driver = try MachineDriver.connected(for: .seconds(3))
        driver.media(.closedByPeer(Self.closed))
        driver.wait(.milliseconds(300))
        #expect(driver.state == .reconnecting && driver.warnings() == [Self.closed])
        #expect(driver.runningTimers == [.retry])
    }
}
