import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// What only a room with a publisher and a subscriber does; they go with `TwoConnections`.
@Suite("A room with two peer connections", .timeLimit(.minutes(1)))
struct TwoConnectionsTests {
    private func description(_ type: String, _ sdp: String, _ id: UInt32) -> LiveKitSessionDescription {
        .with {
            $0.type = type
            $0.sdp = sdp
            $0.id = id
        }
    }

    @Test func wholeStayInOrder() throws {
        var driver = RoomDriver()
        driver.handle(.opened)
        #expect(driver.takeActions() == [])
        driver.server(.join(RoomDriver.join))
        let joined = driver.takeActions()
        #expect(joined.first == .useServers(RoomDriver.join.iceServers, relayOnly: false))
        guard case .send(.addTrack(let track)) = joined.last else {
            Issue.record("no track was announced")
            return
        }
        #expect(joined.count == 2)
        #expect(track.cid == "camera" && track.type == .video && track.source == .camera)
        #expect(track.width == 1280 && track.height == 704)
        #expect(track.layers.map(\.quality) == [.high] && track.layers.first?.bitrate == 3_500_000)
        #expect(track.simulcastCodecs.map(\.codec) == ["h264"] && track.simulcastCodecs.first?.cid == "camera")

        // The server's offer may come first, and repeatedly.
        driver.server(.offer(description("offer", "theirs", 1)))
        #expect(driver.takeActions() == [.makeAnswer(offer: "theirs", id: 1)])
        driver.handle(.answerMade(sdp: "ours", offer: 1))
        #expect(driver.takeActions() == [.send(.answer(description("answer", "ours", 1)))])

        driver.server(.trackPublished(.with { $0.cid = "camera" }))
        #expect(driver.takeActions() == [.makeOffer([.video])])
        driver.handle(.offerMade(sdp: "our offer"))
        #expect(driver.takeActions() == [.send(.offer(description("offer", "our offer", 1)))])
        driver.server(.answer(.with { $0.sdp = "their answer" }))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "their answer")])

        driver.handle(.peerConnected(.publisher))
        #expect(driver.takeActions() == [])
        driver.handle(.peerConnected(.subscriber))
        #expect(driver.takeActions() == [.reportConnected])
        driver.server(.offer(description("offer", "theirs again", 2)))
        #expect(driver.takeActions() == [.makeAnswer(offer: "theirs again", id: 2)])

        driver.handle(.stop)
        let leave = LiveKitLeaveRequest.with { ($0.action, $0.reason) = (.disconnect, .clientInitiated) }
        #expect(driver.takeActions() == [.send(.leave(leave)), .close])
        #expect(driver.timers.isEmpty)
        driver.handle(.closed(code: 1000, reason: ""))
        driver.server(.leave(.with { $0.action = .resume }))
        #expect(driver.takeActions() == [])
    }

    @Test func aServerThatLetsUsOfferFirst() {
        var driver = RoomDriver()
        driver.walkToPublishing(.with { $0.subscriberPrimary = false })
        driver.server(.trackPublished(.with { $0.cid = "camera" }))
        driver.handle(.peerConnected(.publisher))
        #expect(driver.takeActions().last == .reportConnected)
    }

    /// Without video the machine makes no offer and is connected once the subscriber is; video may be added later.
    @Test func videoThatIsWithheldFromTheStart() {
        var driver = RoomDriver()
        driver.handle(.desired(DesiredMedia(video: false)))
        driver.walkToPublishing()
        #expect(driver.takeActions() == [.useServers(RoomDriver.join.iceServers, relayOnly: false)])
        driver.handle(.peerConnected(.subscriber))
        #expect(driver.takeActions() == [.reportConnected])
        driver.handle(.desired(DesiredMedia()))
        driver.published("camera", "TR_c")
        #expect(driver.takeActions().last == .makeOffer([.video]))
        driver.wait(.seconds(11))
        #expect(driver.takeActions().contains(.rollbackOffer))
    }

    @Test func aViewerAnnouncesNothing() {
        var driver = RoomDriver(publishes: false)
        driver.walkToPublishing(RoomDriver.joinWithWorker)
        let actions = driver.takeActions()
        #expect(actions.first == .useServers(RoomDriver.join.iceServers, relayOnly: false))
        guard actions.count == 2, case .send(.subscription) = actions.last else {
            Issue.record("ordered \(actions)")
            return
        }
        driver.server(.offer(description("offer", "theirs", 1)))
        #expect(driver.takeActions() == [.makeAnswer(offer: "theirs", id: 1)])
        driver.handle(.peerConnected(.subscriber))
        #expect(driver.takeActions() == [.reportConnected])
    }

    /// A viewer is connected once its subscriber connection is, even if the server makes the publisher the primary one.
    @Test func aViewerWaitsForItsFrames() {
        var driver = RoomDriver(publishes: false)
        driver.walkToPublishing(.with { $0.subscriberPrimary = false })
        _ = driver.takeActions()
        driver.handle(.peerConnected(.subscriber))
        #expect(driver.takeActions() == [.reportConnected])
    }
}
