import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import SwiftProtobuf
import Testing
import WebRTCTransport

/// Audio in a room, and video that is unpublished: messages to the server and their order.
@Suite("A room's tracks", .timeLimit(.minutes(1)))
struct RoomMediaTests {
    private let both = MediaWish(video: true, audio: true)
    private let microphone = RoomAction.send(
        .addTrack(
            .with {
                $0.cid = "microphone"
                $0.name = "microphone"
                $0.type = .audio
                $0.source = .microphone
            }))

    private func published(_ cid: String, _ sid: String) -> LiveKitSignalResponse.OneOf_Message {
        .trackPublished(
            .with {
                $0.cid = cid
                $0.track = RoomDriver.track(sid)
            })
    }

    private func subscription(_ sid: String, _ isWanted: Bool) -> RoomAction {
        .send(
            .subscription(
                .with {
                    $0.trackSids = [sid]
                    $0.subscribe = isWanted
                    $0.participantTracks = [
                        .with {
                            $0.participantSid = "PA_worker"
                            $0.trackSids = [sid]
                        }
                    ]
                }))
    }

    private func connected(_ wish: MediaWish = MediaWish()) -> RoomDriver {
        var driver = RoomDriver()
        driver.tell(.wish(wish))
        driver.walkToConnected()
        _ = driver.take()
        return driver
    }

    @Test func wantedBeforeJoiningIsInTheFirstOffer() {
        var driver = RoomDriver()
        driver.tell(.wish(both))
        #expect(driver.take() == [])
        driver.walkToPublishing()
        let orders = driver.take()
        #expect(orders.count == 3 && orders[1] == microphone)
        driver.server(published("microphone", "TR_m"))
        #expect(driver.take() == [])
        driver.server(published("camera", "TR_c"))
        #expect(driver.take() == [.makeOffer([.video, .audio])])
    }

    @Test func soundThatTheRoomIsSlowAboutDoesNotHoldUpThePicture() {
        var driver = RoomDriver()
        driver.tell(.wish(both))
        driver.walkToPublishing()
        driver.server(published("camera", "TR_c"))
        #expect(driver.take().last == .makeOffer([.video]))
        driver.tell(.offerMade(sdp: "1"))
        driver.server(published("microphone", "TR_m"))
        // Only one offer may be in flight.
        #expect(!driver.take().contains(.makeOffer([.video, .audio])))
        driver.server(.answer(.with { $0.sdp = "a" }))
        #expect(driver.take() == [.applyAnswer(sdp: "a"), .makeOffer([.video, .audio])])
    }

    @Test func addedAndWithdrawnWhileConnected() {
        var driver = connected()
        driver.tell(.wish(both))
        #expect(driver.take() == [microphone])
        driver.server(published("microphone", "TR_m"))
        #expect(driver.take() == [.makeOffer([.video, .audio])])
        driver.tell(.offerMade(sdp: "2"))
        guard case .send(.offer(let offer)) = driver.take().first else {
            Issue.record("no offer")
            return
        }
        #expect(offer.id == 2)
        driver.server(.answer(.with { $0.sdp = "b" }))
        #expect(driver.take() == [.applyAnswer(sdp: "b")])
        driver.tell(.wish(MediaWish()))
        #expect(driver.take() == [.makeOffer([.video])])
        driver.server(.answer(.with { $0.sdp = "c" }))
        _ = driver.take()
        driver.tell(.wish(both))
        #expect(driver.take() == [microphone])
    }

    @Test func thePictureIsWithdrawnAndRestored() {
        var driver = connected()
        driver.tell(.wish(MediaWish(video: false)))
        #expect(driver.take() == [.makeOffer([])])
        driver.server(.answer(.with { $0.sdp = "b" }))
        _ = driver.take()
        // A confirmation for a track that is gone already has no effect.
        driver.server(.trackUnpublished(.with { $0.trackSid = "" }))
        #expect(driver.take() == [])
        driver.tell(.wish(MediaWish()))
        guard case .send(.addTrack(let track)) = driver.take().first else {
            Issue.record("the picture is not announced")
            return
        }
        #expect(track.cid == "camera")
        driver.server(published("camera", "TR_again"))
        #expect(driver.take() == [.makeOffer([.video])])
        // The server unpublishes the track by itself.
        driver.server(.answer(.with { $0.sdp = "c" }))
        _ = driver.take()
        driver.server(.trackUnpublished(.with { $0.trackSid = "TR_again" }))
        #expect(driver.sent().count == 1)
        driver.server(published("camera", "TR_third"))
        #expect(driver.take() == [.makeOffer([.video])])
    }

    /// Without video the machine makes no offer and is connected once the subscriber is; video may be added later.
    @Test func aPictureThatIsWithheldFromTheStart() {
        var driver = RoomDriver()
        driver.tell(.wish(MediaWish(video: false)))
        driver.walkToPublishing()
        #expect(driver.take() == [.makePeers(RoomDriver.join.iceServers, relayOnly: false)])
        driver.tell(.peerConnected(.subscriber))
        #expect(driver.take() == [.reportConnected])
        driver.tell(.wish(MediaWish()))
        driver.server(published("camera", "TR_c"))
        #expect(driver.take().last == .makeOffer([.video]))
        driver.wait(.seconds(11))
        #expect(driver.take().contains(.forgetOffer))
    }

    @Test func soundAlone() {
        var driver = RoomDriver()
        driver.tell(.wish(MediaWish(video: false, audio: true)))
        driver.walkToPublishing()
        driver.server(published("microphone", "TR_m"))
        #expect(driver.take().last == .makeOffer([.audio]))
    }

    @Test func withdrawnWhileConnecting() {
        var driver = RoomDriver()
        driver.walkToOffered()
        driver.tell(.peerConnected(.subscriber))
        _ = driver.take()
        driver.tell(.wish(MediaWish(video: false)))
        #expect(driver.take() == [.reportConnected])
        driver.server(.answer(.with { $0.sdp = "their answer" }))
        #expect(driver.take() == [.applyAnswer(sdp: "their answer"), .makeOffer([])])
    }

    @Test func soundIsListenedToOnlyWhileItIsWanted() {
        var driver = connected()
        var worker = RoomDriver.worker
        worker.tracks.append(RoomDriver.track("TR_sound", type: .audio))
        driver.server(.update(.with { $0.participants = [worker] }))
        #expect(driver.take() == [subscription("TR_out", true)])
        #expect(!driver.machine.isWanted(msid: "PA_worker|microphone TR_sound"))
        driver.tell(.wish(both))
        #expect(driver.take() == [subscription("TR_sound", true), microphone])
        #expect(driver.machine.isWanted(msid: "PA_worker|microphone TR_sound"))
        driver.tell(.wish(MediaWish()))
        #expect(driver.take() == [subscription("TR_sound", false)])
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
        driver.server(.update(.with { $0.participants = [other] }))
        #expect(driver.take() == [])
        #expect(!driver.machine.isWanted(msid: "PA_other|microphone TR_voice"))
    }

    @Test func soundThatIsRefusedLeavesThePicture() {
        var driver = connected()
        driver.tell(.wish(both))
        _ = driver.take()
        driver.server(
            .requestResponse(
                .with {
                    $0.reason = .notAllowed
                    $0.addTrack = .with { $0.cid = "microphone" }
                }))
        let orders = driver.take()
        #expect(orders.count == 1)
        if case .note = orders.first {} else { Issue.record("\(orders)") }
        driver.tell(.wish(MediaWish()))
        driver.tell(.wish(both))
        #expect(driver.take() == [])
    }

    @Test func anAnswerThatNeverComesIsForgotten() {
        var driver = connected()
        driver.tell(.wish(both))
        driver.server(published("microphone", "TR_m"))
        _ = driver.take()
        driver.wait(.seconds(11))
        let orders = driver.take()
        #expect(orders.contains(.forgetOffer))
        #expect(!orders.contains { if case .reportFailed = $0 { true } else { false } })
        driver.server(.answer(.with { $0.sdp = "late" }))
        #expect(!driver.take().contains(.applyAnswer(sdp: "late")))
        driver.tell(.wish(MediaWish()))
        #expect(driver.take() == [.makeOffer([.video])])
    }
}
