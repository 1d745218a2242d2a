import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import SwiftProtobuf
import Testing
import WebRTCTransport

/// A room with one peer connection for both directions.
@Suite("A room's one connection", .timeLimit(.minutes(1)))
struct SingleConnectionTests {
    private let both = DesiredMedia(video: true, audio: true)

    private func description(_ type: String, _ sdp: String, _ id: UInt32) -> LiveKitSessionDescription {
        .with { ($0.type, $0.sdp, $0.id) = (type, sdp, id) }
    }

    private func published(_ cid: String, _ sid: String) -> LiveKitSignalResponse.OneOf_Message {
        .trackPublished(.with { ($0.cid, $0.track) = (cid, RoomDriver.track(sid)) })
    }

    private func needs(videos: UInt32 = 0, audios: UInt32 = 0) -> LiveKitSignalResponse.OneOf_Message {
        .mediaSectionsRequirement(.with { ($0.numVideos, $0.numAudios) = (videos, audios) })
    }

    /// Walks to the request to join.
    private func asking(_ desired: DesiredMedia = DesiredMedia()) throws -> (RoomDriver, LiveKitJoinRequest) {
        var driver = RoomDriver(mode: .single)
        driver.handle(.desired(desired))
        driver.handle(.open)
        let kinds = Set(MediaKind.allCases.filter { desired[$0] })
        #expect(driver.takeActions() == [.makePeer, .makeOffer(kinds)])
        driver.handle(.offerMade(sdp: "our offer"))
        let actions = driver.takeActions()
        guard actions.count == 1, case .connect(let join) = actions[0] else { throw WrongOrders(actions: actions) }
        return (driver, try #require(join))
    }

    private func connected(_ desired: DesiredMedia = DesiredMedia()) throws -> RoomDriver {
        var (driver, _) = try asking(desired)
        driver.walkToPublishing()
        driver.server(.answer(description("answer", "their answer", 1)))
        driver.handle(.peerConnected(.publisher))
        #expect(driver.takeActions().last == .reportConnected)
        return driver
    }

    private struct WrongOrders: Error { var actions: [RoomAction] }

    @Test func whatIsAskedFor() throws {
        let (_, join) = try asking()
        #expect(join.publisherOffer == description("offer", "our offer", 1))
        #expect(join.addTrackRequests.map(\.cid) == ["camera"])
        let (_, withSound) = try asking(both)
        #expect(withSound.addTrackRequests.map(\.cid) == ["microphone", "camera"])
        let (_, empty) = try asking(DesiredMedia(video: false))
        #expect(empty.addTrackRequests.isEmpty && empty.hasPublisherOffer)
    }

    @Test func wholeStayInOrder() throws {
        var (driver, _) = try asking()
        driver.handle(.opened)
        // The answer arrives before the join response, so it is ignored.
        driver.server(.answer(description("answer", "their answer", 1)))
        #expect(driver.takeActions() == [.note("Ignored: an answer without an offer")])
        var join = RoomDriver.join
        join.clientConfiguration.forceRelay = .enabled
        driver.server(.join(join))
        #expect(driver.takeActions() == [.gather(join.iceServers, relayOnly: true)])
        driver.server(published("camera", "TR_c"))
        #expect(driver.takeActions() == [] && driver.machine.trackSID == "TR_c")
        driver.server(.answer(description("answer", "their answer", 1)))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "their answer")])
        let candidate = CandidateMessage(candidate: "c", sdpMid: "0", sdpMLineIndex: 0)
        driver.server(
            .trickle(
                .with {
                    $0.candidateInit = #"{"candidate":"c","sdpMid":"0","sdpMLineIndex":0}"#
                    ($0.target, $0.final) = (.subscriber, true)
                }))
        #expect(driver.takeActions() == [.applyCandidate(candidate, .publisher), .applyCandidate(nil, .publisher)])
        driver.handle(.peerConnected(.publisher))
        #expect(driver.takeActions() == [.reportConnected])

        driver.server(.update(.with { $0.participants = [RoomDriver.worker] }))
        #expect(driver.sent().count == 1)
        driver.server(needs())
        #expect(driver.takeActions() == [.makeOffer([.video])])
        driver.handle(.offerMade(sdp: "our second"))
        #expect(driver.takeActions() == [.send(.offer(description("offer", "our second", 2)))])
        // Only one offer may be in flight; an answer with another ID is ignored.
        driver.server(needs(videos: .max, audios: 1))
        #expect(driver.takeActions() == [.addReceiveSections([.video: 16, .audio: 1])])
        driver.server(.answer(description("answer", "late", 1)))
        #expect(driver.takeActions() == [.note("Ignored: an answer without an offer")])
        var answer = description("answer", "their second", 2)
        answer.midToTrackID = ["1": "TR_out", "2": "TR_other"]
        driver.server(.answer(answer))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "their second"), .makeOffer([.video])])
        let machine = driver.machine
        #expect(machine.isWanted(mid: "1", msid: nil) && !machine.isWanted(mid: "2", msid: "PA_worker|camera TR_out"))
        #expect(machine.isWanted(mid: "3", msid: "PA_worker|camera TR_out") && !machine.isWanted(mid: "3", msid: nil))
    }

    /// The track's SID is reported even if it comes after the answer.
    @Test func aNameThatComesAfterTheAnswer() throws {
        var driver = try connected()
        #expect(driver.machine.trackSID == nil)
        driver.server(published("camera", "TR_c"))
        #expect(driver.takeActions() == [.reportPublished] && driver.machine.trackSID == "TR_c")
    }

    @Test func soundComesAndGoes() throws {
        var driver = try connected()
        var worker = RoomDriver.worker
        worker.tracks.append(RoomDriver.track("TR_sound", type: .audio))
        driver.server(.update(.with { $0.participants = [worker] }))
        _ = driver.takeActions()
        driver.handle(.desired(both))
        #expect(driver.sent().count == 2)
        driver.server(published("microphone", "TR_m"))
        #expect(driver.takeActions() == [.makeOffer([.video, .audio])])
        driver.handle(.offerMade(sdp: "2"))
        driver.server(needs())
        _ = driver.takeActions()
        driver.server(.answer(description("answer", "second", 2)))
        // The server now has a track to send on the added m-line.
        #expect(driver.takeActions() == [.applyAnswer(sdp: "second"), .makeOffer([.video, .audio])])
        driver.handle(.offerMade(sdp: "3"))
        driver.server(.answer(description("answer", "third", 3)))
        driver.handle(.desired(DesiredMedia()))
        #expect(driver.takeActions().last == .makeOffer([.video]))
    }

    @Test func thePictureIsWithdrawnAndRestored() throws {
        var driver = try connected()
        driver.handle(.desired(DesiredMedia(video: false)))
        #expect(driver.takeActions() == [.makeOffer([])])
        driver.server(.answer(description("answer", "b", 0)))
        _ = driver.takeActions()
        driver.handle(.desired(DesiredMedia()))
        #expect(driver.sent().count == 1)
        driver.server(published("camera", "TR_again"))
        #expect(driver.takeActions() == [.makeOffer([.video])])
    }

    /// A change during the join is part of the next offer.
    @Test func aChangeOfMindBeforeTheAnswer() throws {
        var (driver, _) = try asking(both)
        driver.handle(.desired(DesiredMedia()))
        driver.walkToPublishing()
        #expect(driver.takeActions() == [.gather(RoomDriver.join.iceServers, relayOnly: false)])
        driver.server(.answer(description("answer", "a", 1)))
        #expect(driver.takeActions() == [.applyAnswer(sdp: "a"), .makeOffer([.video])])
    }

    private func refused(_ status: Int) -> RoomEvent {
        .failed(SessionError(.server, "no", stage: .media, httpStatus: status))
    }

    /// An older server without this feature: the machine switches to two connections at once and joins from scratch.
    @Test func aServerWithoutIt() throws {
        var (driver, _) = try asking(both)
        driver.handle(refused(404))
        #expect(driver.takeActions() == [.dropPeer, .connect(nil)] && driver.machine.mode == .dual)
        driver.walkToPublishing()
        #expect(driver.takeActions().first == .makePeers(RoomDriver.join.iceServers, relayOnly: false))
        driver.server(published("microphone", "TR_m"))
        driver.server(published("camera", "TR_c"))
        #expect(driver.takeActions() == [.makeOffer([.video, .audio])])
        driver.handle(.offerMade(sdp: "our offer"))
        #expect(driver.takeActions() == [.send(.offer(description("offer", "our offer", 1)))])
    }

    @Test func refusalsThatAreFinal() throws {
        for status in [400, 401, 503] {
            var (driver, _) = try asking()
            driver.handle(refused(status))
            #expect(driver.failures().count == 1)
        }
        var (driver, _) = try asking()
        driver.handle(refused(404))
        driver.handle(refused(404))
        #expect(driver.failures().count == 1)
        var late = try connected()
        late.handle(.closed(code: 1006, reason: ""))
        late.handle(refused(404))
        let actions = late.takeActions()
        #expect(actions.count { if case .reportClosed = $0 { true } else { false } } == 1)
    }

    @Test func onlyWeOffer() throws {
        var driver = try connected()
        driver.server(.offer(description("offer", "theirs", 1)))
        #expect(driver.failures().count == 1)
    }

    @Test func whoOnlyWatchesHasTwo() {
        var driver = RoomDriver(publishes: false, mode: .single)
        driver.handle(.open)
        #expect(driver.takeActions() == [.connect(nil)])
    }

    @Test func withTwoConnectionsNobodyAsksForLines() {
        var driver = RoomDriver()
        driver.handle(.open)
        driver.walkToConnected()
        _ = driver.takeActions()
        driver.server(needs(videos: 1))
        #expect(!driver.takeActions().contains { if case .note = $0 { false } else { true } })
    }
}
