import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import Testing
import WebRTCTransport

/// Audio in a room, and video that is unpublished: messages to the server and their order.
@Suite("A room's tracks", .timeLimit(.minutes(1)))
struct RoomMediaTests {
    private let both = DesiredMedia(video: true, audio: true)
    private let microphone = RoomAction.send(
        .addTrack(
            .with {
                $0.cid = "microphone"
                $0.name = "microphone"
                $0.type = .audio
                $0.source = .microphone
            }))

    private func connected(_ desired: DesiredMedia = DesiredMedia()) -> RoomDriver {
        var driver = RoomDriver()
        driver.handle(.desired(desired))
        driver.walkToConnected()
        _ = driver.takeActions()
        return driver
    }

    @Test func wantedBeforeJoiningIsInTheFirstOffer() {
        var driver = RoomDriver()
        driver.handle(.desired(both))
        #expect(driver.takeActions() == [])
        driver.walkToPublishing()
        let actions = driver.takeActions()
        #expect(actions.count == 3 && actions[1] == microphone)
        driver.published("microphone", "TR_m")
        #expect(driver.takeActions() == [])
        driver.published("camera", "TR_c")
        #expect(driver.takeActions() == [.makeOffer([.video, .audio])])
    }

    @Test func audioThatTheRoomIsSlowAboutDoesNotHoldUpTheVideo() {
        var driver = RoomDriver()
        driver.handle(.desired(both))
        driver.walkToPublishing()
        driver.published("camera", "TR_c")
        #expect(driver.takeActions().last == .makeOffer([.video]))
        driver.handle(.offerMade(sdp: "1"))
        driver.published("microphone", "TR_m")
        // Only one offer may be in flight.
        #expect(!driver.takeActions().contains(.makeOffer([.video, .audio])))
        driver.server(.answer(.with { $0.sdp = "a" }))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "a"), .makeOffer([.video, .audio])])
    }

    @Test func addedAndWithdrawnWhileConnected() {
        var driver = connected()
        driver.handle(.desired(both))
        #expect(driver.takeActions() == [microphone])
        driver.published("microphone", "TR_m")
        #expect(driver.takeActions() == [.makeOffer([.video, .audio])])
        driver.handle(.offerMade(sdp: "2"))
        guard case .send(.offer(let offer)) = driver.takeActions().first else {
            Issue.record("no offer")
            return
        }
        #expect(offer.id == 2)
        driver.server(.answer(.with { $0.sdp = "b" }))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "b")])
        driver.handle(.desired(DesiredMedia()))
        #expect(driver.takeActions() == [.makeOffer([.video])])
        driver.server(.answer(.with { $0.sdp = "c" }))
        _ = driver.takeActions()
        driver.handle(.desired(both))
        #expect(driver.takeActions() == [microphone])
    }

    @Test func theVideoIsWithdrawnAndRestored() {
        var driver = connected()
        driver.handle(.desired(DesiredMedia(video: false)))
        #expect(driver.takeActions() == [.makeOffer([])])
        driver.server(.answer(.with { $0.sdp = "b" }))
        _ = driver.takeActions()
        // A confirmation for a track that is gone already has no effect.
        driver.server(.trackUnpublished(.with { $0.trackSid = "" }))
        #expect(driver.takeActions() == [])
        driver.handle(.desired(DesiredMedia()))
        guard case .send(.addTrack(let track)) = driver.takeActions().first else {
            Issue.record("the video is not announced")
            return
        }
        #expect(track.cid == "camera")
        driver.published("camera", "TR_again")
        #expect(driver.takeActions() == [.makeOffer([.video])])
        // The server unpublishes the track by itself.
        driver.server(.answer(.with { $0.sdp = "c" }))
        _ = driver.takeActions()
        driver.server(.trackUnpublished(.with { $0.trackSid = "TR_again" }))
        #expect(driver.sent().count == 1)
        driver.published("camera", "TR_third")
        #expect(driver.takeActions() == [.makeOffer([.video])])
    }

    @Test func soundAlone() {
        var driver = RoomDriver()
        driver.handle(.desired(DesiredMedia(video: false, audio: true)))
        driver.walkToPublishing()
        driver.published("microphone", "TR_m")
        #expect(driver.takeActions().last == .makeOffer([.audio]))
    }

    @Test func withdrawnWhileConnecting() {
        var driver = RoomDriver(at: .offered)
        driver.handle(.peerConnected(.subscriber))
        _ = driver.takeActions()
        driver.handle(.desired(DesiredMedia(video: false)))
        #expect(driver.takeActions() == [.reportConnected])
        driver.server(.answer(.with { $0.sdp = "their answer" }))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "their answer"), .makeOffer([])])
    }

    @Test func soundIsListenedToOnlyWhileItIsWanted() {
        var driver = connected()
        var worker = RoomDriver.worker
        worker.tracks.append(RoomDriver.track("TR_sound", type: .audio))
        driver.update(worker)
        #expect(driver.takeActions() == [RoomDriver.subscription("TR_out", true)])
        #expect(!driver.machine.isWanted(msid: "PA_worker|microphone TR_sound"))
        driver.handle(.desired(both))
        #expect(driver.takeActions() == [RoomDriver.subscription("TR_sound", true), microphone])
        #expect(driver.machine.isWanted(msid: "PA_worker|microphone TR_sound"))
        driver.handle(.desired(DesiredMedia()))
        #expect(driver.takeActions() == [RoomDriver.subscription("TR_sound", false)])
        #expect(!driver.machine.isWanted(msid: "PA_worker|microphone TR_sound"))
        #expect(driver.machine.isWanted(msid: "PA_worker|camera TR_out"))
    }

    @Test func soundOfOthersIsNoneOfOurBusiness() {
        var driver = connected(both)
        let other = LiveKitParticipantInfo.with {
            $0.sid = "PA_other"
            $0.identity = "somebody"
            $0.tracks = [RoomDriver.track("TR_voice", type: .audio)]
        }
        driver.update(other)
        #expect(driver.takeActions() == [])
        #expect(!driver.machine.isWanted(msid: "PA_other|microphone TR_voice"))
    }

    @Test func audioThatIsRefusedLeavesTheVideo() {
        var driver = connected()
        driver.handle(.desired(both))
        _ = driver.takeActions()
        driver.server(
            .requestResponse(
                .with {
                    $0.reason = .notAllowed
                    $0.addTrack = .with { $0.cid = "microphone" }
                }))
        let actions = driver.takeActions()
        #expect(actions.count == 1)
        if case .note = actions.first {} else { Issue.record("\(actions)") }
        driver.handle(.desired(DesiredMedia()))
        driver.handle(.desired(both))
        #expect(driver.takeActions() == [])
    }

    @Test func anAnswerThatNeverComesIsForgotten() {
        var driver = connected()
        driver.handle(.desired(both))
        driver.published("microphone", "TR_m")
        _ = driver.takeActions()
        driver.wait(.seconds(11))
        let actions = driver.takeActions()
        #expect(actions.contains(.rollbackOffer))
        #expect(!actions.contains { if case .report(.closedByPeer) = $0 { true } else { false } })
        driver.server(.answer(.with { $0.sdp = "late" }))
        #expect(!driver.takeActions().contains(.applyAnswer(sdp: "late")))
        driver.handle(.desired(DesiredMedia()))
        #expect(driver.takeActions() == [.makeOffer([.video])])
    }
}
