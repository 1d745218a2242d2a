import DecartProtocol
import DecartSession
import Testing

@Suite("The machine: viewers", .timeLimit(.minutes(1)))
struct ViewerTests {
    private func driver(_ transport: TransportChoice, prompt: String? = nil) throws -> MachineDriver {
        try MachineDriver(prompt: prompt) {
            $0.transport = transport
            $0.isViewer = true
        }
    }

    private let info = ServerMessage.livekitRoomInfo(
        LiveKitRoomInfo(url: "wss://room.example", token: Secret("t"), roomName: "r", sessionID: "s"))

    @Test func aDirectViewerOffersAndAsksForNothing() throws {
        var driver = try driver(.webrtc)
        driver.handle(.start)
        driver.open()
        let id = driver.attempt
        #expect(
            driver.takeActions() == [
                .openChannel(id, .webrtc, timeout: .seconds(15)), .startMedia(id, .negotiate(relays: [])),
            ])
        driver.negotiate()
        #expect(driver.sent() == [.offer(sdp: "offer")])
        #expect(driver.state == .connected)
        // A viewer sends nothing, so the watchdog must not miss sent media.
        driver.flow = MediaTraffic(sent: 0, received: 0)
        driver.wait(.seconds(60))
        #expect(driver.state == .connected)
    }

    @Test func aServiceThatSaysNothingIsOfferedAllTheSame() throws {
        var driver = try driver(.webrtc)
        driver.handle(.start)
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        #expect(!driver.startsMedia())
        driver.wait(.seconds(1))
        #expect(driver.startsMedia() && driver.sent().isEmpty)
    }

    @Test func aViewerInARoomOnlyJoins() throws {
        var driver = try driver(.livekit)
        driver.handle(.start)
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        driver.server(info)
        let id = driver.attempt
        let start = MediaStart.room(url: "wss://room.example", token: Secret("t"))
        #expect(driver.takeActions() == [.openChannel(id, .livekit, timeout: .seconds(15)), .startMedia(id, start)])
        driver.media(.connected(ice: nil, dtls: nil))
        driver.wait(.seconds(120))
        #expect(driver.state == .connected && driver.sent().isEmpty)
        #expect(driver.snapshot.sessionID == "s")
    }

    @Test func promptsAreRefused() throws {
        var driver = try driver(.livekit)
        let early = try driver.update("lego")
        driver.handle(.start)
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        driver.server(info)
        driver.media(.connected(ice: nil, dtls: nil))
        let late = try driver.update("anime")
        #expect(driver.results().map(\.id) == [early, late])
        #expect(driver.results().allSatisfy { $0.error?.contains("viewer") == true })
        #expect(driver.sent().isEmpty)
    }

    @Test func aLostSessionIsTriedAgainUntilTheAnswerIsClear() throws {
        var driver = try driver(.livekit)
        driver.handle(.start)
        driver.handle(.channelOpened(driver.attempt, transport: nil, upgrade: nil))
        driver.server(info)
        driver.media(.connected(ice: nil, dtls: nil))
        driver.media(.failed(SessionError(.webRTC, "The session has ended.", stage: .media)))
        #expect(driver.state == .reconnecting)
        driver.waitForRetry()
        driver.handle(.channelFailed(driver.attempt, SessionError(.server, "gone", stage: .upgrade, isPermanent: true)))
        #expect(driver.state == .error && driver.failures().count == 1)
        #expect(driver.runningTimers.isEmpty)
    }
}
