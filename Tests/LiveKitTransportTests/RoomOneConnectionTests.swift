import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import Testing
import WebRTCTransport

@Suite("A room with one peer connection", .timeLimit(.minutes(1)))
struct RoomOneConnectionTests {
    /// The request to join has been sent.
    private func joining(publishes: Bool = true, media: DesiredMedia = DesiredMedia()) -> RoomDriver {
        var configuration = RoomConfiguration(width: 1280, height: 704, bitrate: 3_500_000, codec: .h264)
        (configuration.prefersOneConnection, configuration.publishes) = (true, publishes)
        configuration.receivable = [.h264, .vp8]
        var driver = RoomDriver(configuration)
        driver.handle(.desired(media))
        driver.handle(.open)
        driver.handle(.offerMade(sdp: "our offer"))
        return driver
    }

    private func connected() -> RoomDriver {
        var driver = joining()
        driver.walkToPublishing(RoomDriver.joinWithWorker)
        driver.server(.answer(.with { $0.sdp = "their answer" }))
        driver.published("camera", "TR_in")
        driver.handle(.peerConnected(.publisher))
        return driver
    }

    @Test("The request to join holds tracks and offer, and the answer comes with the room's first messages")
    func join() throws {
        var driver = joining(media: DesiredMedia(video: true, audio: true))
        let actions = driver.takeActions()
        #expect(actions.contains(.makePeer))
        #expect(actions.contains(.makeOffer([.video, .audio])))
        let requests = actions.compactMap { if case .join(let request) = $0 { request } else { nil } }
        let request = try #require(requests.first)
        #expect(request.publisherOffer.sdp == "our offer")
        #expect(request.addTrackRequests.map(\.cid) == ["microphone", "camera"])
        driver.walkToPublishing(RoomDriver.joinWithWorker)
        driver.server(.answer(.with { $0.sdp = "their answer" }))
        let after = driver.takeActions()
        #expect(after.contains(.useServers(RoomDriver.join.iceServers, relayOnly: false)))
        #expect(after.contains(.applyAnswer(sdp: "their answer")))
        // Neither is announced or offered again, whatever is confirmed first.
        driver.published("camera", "TR_in")
        driver.published("microphone", "TR_sound")
        driver.handle(.peerConnected(.publisher))
        #expect(driver.takeActions() == [.reportConnected])
        #expect(driver.machine.trackSID == "TR_in")
    }

    @Test("A server that does not know the request gets two connections", arguments: [404, 405, 414, 431, 501])
    func fallBack(status: Int) {
        var driver = joining()
        _ = driver.takeActions()
        var error = SessionError(.server, "not found", stage: .media)
        error.httpStatus = status
        driver.handle(.failed(error))
        #expect(driver.takeActions() == [.dropPeer, .join(.init())])
        #expect(!driver.machine.usesOneConnection)
        driver.walkToPublishing()
        let actions = driver.takeActions()
        #expect(actions.contains(.useServers(RoomDriver.join.iceServers, relayOnly: false)))
        #expect(actions.contains { if case .send(.addTrack) = $0 { true } else { false } })
        // It falls back once.
        driver.handle(.failed(error))
        #expect(driver.failures() == [error])
    }

    @Test("Candidates that are found behind the offer wait for the signalling connection", arguments: [true, false])
    func candidates(isTaken: Bool) {
        var driver = joining()
        driver.handle(.candidateFound(CandidateMessage(candidate: "candidate:1"), .publisher))
        #expect(driver.sent().isEmpty)
        var error = SessionError(.server, "not found", stage: .media)
        error.httpStatus = 404
        // Those of the dropped connection go nowhere.
        if !isTaken { driver.handle(.failed(error)) }
        driver.handle(.opened)
        let trickled = driver.sent().compactMap { if case .trickle(let message) = $0 { message } else { nil } }
        #expect(trickled.map(\.target) == (isTaken ? [.publisher] : []))
        #expect(trickled.allSatisfy { $0.candidateInit.contains("candidate:1") })
    }

    @Test("Another refusal ends the stay")
    func refused() {
        var driver = joining()
        var error = SessionError(.server, "unauthorized", stage: .media)
        error.httpStatus = 401
        driver.handle(.failed(error))
        #expect(driver.failures() == [error])
    }

    @Test("The server asks for an offer to carry its tracks, with further m-lines or without")
    func requirement() {
        var driver = connected()
        _ = driver.takeActions()
        driver.server(.mediaSectionsRequirement(.init()))
        #expect(driver.takeActions() == [.makeOffer([.video])])
        driver.handle(.offerMade(sdp: "second offer"))
        // While an offer is in flight, the next one waits.
        driver.server(.mediaSectionsRequirement(.with { $0.numVideos = 1 }))
        #expect(driver.takeActions().dropFirst() == [.addReceivers([.video: 1, .audio: 0])])
        driver.server(.answer(.with { $0.sdp = "second answer" }))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "second answer"), .makeOffer([.video])])
    }

    @Test("An offer of the server is ignored")
    func serverOffer() {
        var driver = connected()
        _ = driver.takeActions()
        driver.server(.offer(.with { $0.sdp = "their offer" }))
        #expect(!driver.takeActions().contains { if case .makeAnswer = $0 { true } else { false } })
    }

    @Test("A resume repeats the latest descriptions, and restarts ICE only if the path is lost")
    func resume() throws {
        var driver = connected()
        driver.handle(.closed(code: 1006, reason: ""))
        _ = driver.takeActions()
        driver.reopen()
        let states = driver.sent().compactMap { if case .syncState(let state) = $0 { state } else { nil } }
        let state = try #require(states.first)
        #expect(state.offer.sdp == "our offer")
        #expect(state.answer.sdp == "their answer")
        driver.handle(.pathLost(.publisher))
        _ = driver.takeActions()
        driver.reopen()
        #expect(driver.takeActions().contains(.restartICE([.video])))
    }

    @Test("A viewer offers only what it receives")
    func viewer() throws {
        var driver = joining(publishes: false)
        let actions = driver.takeActions()
        #expect(actions.contains(.makeOffer([])))
        let requests = actions.compactMap { if case .join(let request) = $0 { request } else { nil } }
        #expect(try #require(requests.first).addTrackRequests.isEmpty)
        driver.walkToPublishing(RoomDriver.joinWithWorker)
        driver.server(.answer(.with { $0.sdp = "their answer" }))
        driver.handle(.peerConnected(.publisher))
        #expect(driver.takeActions().contains(.reportConnected))
    }
}
