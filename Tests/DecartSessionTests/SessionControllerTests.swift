import DecartProtocol
import DecartSession
import Synchronization
import Testing

@Suite("The controller", .timeLimit(.minutes(1)))
struct SessionControllerTests {
    @Test func connectsAndStops() throws {
        let world = try World.connected()
        #expect(world.reported.channels.count == 1 && world.reported.media.count == 1)
        let channel = try #require(world.reported.channels.first)
        let media = try #require(world.reported.media.first)
        #expect(channel.sent == [.prompt(PromptMessage(text: "Lego World", enhance: false)), .offer(sdp: "offer")])
        #expect(media.state.withLock { $0.start } == .negotiate(relays: []))
        #expect(media.state.withLock { $0.answers } == ["answer"])
        #expect(world.reported.snapshots.map(\.state).last == .connected)
        #expect(world.with { $0.snapshot.state } == .connected)

        world.stop()
        #expect(channel.closes == 0)
        world.scheduler.run()
        #expect(channel.closes == 1 && media.stops == 1)
        #expect(world.reported.completions == 1)
        #expect(world.with { $0.snapshot.state } == .disconnected)
        // Late events change nothing.
        let snapshots = world.reported.snapshots.count
        channel.onEvent(.closed(code: 1011, reason: ""))
        media.onEvent(.failed(SessionError(.webRTC, "late", stage: .media)))
        world.scheduler.advance(.seconds(1000))
        #expect(world.reported.snapshots.count == snapshots && world.reported.channels.count == 1)
        #expect(world.reported.completions == 1)
        #expect(world.scheduler.pendingTimers == 0)
    }

    @Test func snapshotsAreToldOnChangeOnly() throws {
        let world = try World.connected()
        world.scheduler.advance(.seconds(3))
        let snapshots = world.reported.snapshots
        #expect(zip(snapshots, snapshots.dropFirst()).allSatisfy { $0 != $1 })
        try world.reported.channels.last?.say(.status("ready"))
        try world.reported.channels.last?.say(.unknown(type: "x"))
        world.scheduler.run()
        #expect(world.reported.snapshots.count == snapshots.count)
    }

    @Test func malformedMessagesAreNoted() throws {
        let world = try World.connected()
        world.reported.channels.last?.onEvent(.text([UInt8]("{".utf8)))
        world.reported.channels.last?.onEvent(.text([]))
        world.scheduler.run()
        #expect(world.with { $0.snapshot.state } == .connected)
        #expect(world.reported.reports.count { if case .note = $0 { true } else { false } } == 2)
    }

    @Test func promptsHaveResults() throws {
        let world = try World.connected()
        let update = PromptUpdate(prompt: try Prompt("next"))
        let first = world.with { $0.updatePrompt(update) }
        let second = world.with { $0.updatePrompt(update) }
        #expect(first != second)
        world.scheduler.advance(.milliseconds(40))
        try world.reported.channels.last?.say(.promptAck(PromptAck(prompt: "next", success: true)))
        try world.reported.channels.last?.say(.promptAck(PromptAck(prompt: "next", success: false, error: "canary")))
        world.scheduler.run()
        let results = world.reported.reports.compactMap {
            if case .promptResult(let result) = $0 { result } else { nil }
        }
        #expect(results.map(\.id) == [first, second].compactMap { $0 })
        #expect(results.map(\.elapsed) == [.milliseconds(40), .milliseconds(40)])
        // The channel's secrets are redacted from the service's messages.
        #expect(results.last?.error == "<redacted>")
    }

    @Test func reconnectsWithNewChannelAndMedia() throws {
        let world = try World.connected()
        world.reported.channels.last?.onEvent(.closed(code: 1012, reason: "restart"))
        world.scheduler.run()
        #expect(world.with { $0.snapshot.state } == .reconnecting)
        #expect(world.reported.media.first?.stops == 1)
        world.scheduler.advance(.seconds(1))
        #expect(world.reported.channels.count == 2)
        try world.connectCurrent()
        #expect(world.with { $0.snapshot.state } == .connected)
        #expect(world.reported.media.count == 2)
    }

    @Test func aStallReachesTheMediaPath() throws {
        let world = try World.connected()
        let media = try #require(world.reported.media.last)
        media.state.withLock { $0.traffic.received = 1 }
        for _ in 1...12 {
            media.state.withLock { $0.traffic.sent += 15 }
            world.scheduler.advance(.milliseconds(500))
        }
        #expect(media.state.withLock { $0.restarts == 1 && $0.keyframeRequests == 1 })
        #expect(world.with { $0.snapshot.state } == .connected && world.reported.channels.count == 1)
    }

    @Test func aFactoryThatFailsIsAFailedAttempt() throws {
        let error = SessionError(.invalidOptions, "No such encoder.", stage: .configuration, isPermanent: true)
        let world = try World(failing: error)
        _ = world.with { $0.start() }
        world.scheduler.run()
        #expect(world.with { $0.snapshot.state } == .error)
        #expect(world.reported.reports == [.failed(error)])
    }

    @Test func stopCompletesAfterASecondWhateverTheOutsideDoes() throws {
        let world = try World.connected(answers: false)
        world.stop()
        world.stop()
        world.scheduler.run()
        #expect(world.reported.completions == 0)
        world.scheduler.advance(.seconds(1))
        #expect(world.reported.completions == 2)
    }

    @Test func stopWithoutStartCompletes() throws {
        let world = try World()
        world.stop()
        world.scheduler.run()
        #expect(world.reported.completions == 1)
    }

    @Test func lettingGoClosesEverything() throws {
        let world = try World.connected()
        let channel = try #require(world.reported.channels.first)
        let media = try #require(world.reported.media.first)
        world.letGo()
        #expect(channel.closes == 1 && media.stops == 1)
        world.scheduler.advance(.seconds(100))
        channel.onEvent(.text([]))
        media.onEvent(.firstFrame)
        world.scheduler.run()
        #expect(world.reported.channels.count == 1)
    }

    @Test func stopKeepsTheControllerAliveUntilItHasEnded() throws {
        let world = try World.connected()
        world.stop()
        world.letGo()
        world.scheduler.run()
        #expect(world.reported.completions == 1)
        #expect(world.reported.channels.first?.closes == 1)
    }

    /// Uses the real scheduler and many threads: start and stop in any order end cleanly.
    @Test func manyThreads() async throws {
        let channels = Mutex<[FakeChannel]>([])
        let controller = SessionController(
            configuration: SessionConfiguration(initial: SessionContent()),
            scheduler: SessionQueue(label: "test.session"),
            makeChannel: { _, _, onEvent throws(SessionError) in
                let channel = FakeChannel(answersClose: true, onEvent: onEvent)
                channels.withLock { $0.append(channel) }
                return channel
            },
            makeMedia: { _, _, onEvent throws(SessionError) in FakeMedia(answersStop: true, onEvent: onEvent) },
            onChange: { _ in }, onEvent: { _ in })
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<8 {
                group.addTask {
                    for round in 0..<100 {
                        switch (index + round) % 3 {
                        case 0: controller.start()
                        case 1: controller.stop()
                        default: controller.updatePrompt(PromptUpdate())
                        }
                        _ = controller.snapshot
                    }
                }
            }
        }
        await withCheckedContinuation { continuation in controller.stop { continuation.resume() } }
        #expect(controller.snapshot.state != .connecting)
        #expect(channels.withLock { $0.allSatisfy { $0.closes == 1 } })
    }

    @Test func realTimersFire() async throws {
        let (states, continuation) = AsyncStream<SessionState>.makeStream()
        var configuration = SessionConfiguration(initial: SessionContent(), retry: RetryPolicy(maximumRetries: 1))
        configuration.retry.maximumDelay = .milliseconds(10)
        let controller = SessionController(
            configuration: configuration, scheduler: SessionQueue(label: "test.session"),
            makeChannel: { _, _, onEvent throws(SessionError) in
                throw SessionError(.network, "no", stage: .connect)
            },
            makeMedia: { _, _, onEvent throws(SessionError) in FakeMedia(answersStop: true, onEvent: onEvent) },
            onChange: { continuation.yield($0.state) }, onEvent: { _ in })
        controller.start()
        for await state in states where state == .error { break }
        #expect(controller.snapshot.lastError?.message.contains("after 1 retry") == true)
    }
}
