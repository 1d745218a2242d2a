import DecartProtocol
import LiveKitProtocol
import StandInServer
import Testing

/// A participant that resumes its stay over another signalling connection, with fake media.
@Suite(.timeLimit(.minutes(1)))
struct ResumeTests {
    /// A participant that publishes, with connected media.
    private struct Stay {
        var room: RoomClient
        var join: LiveKitJoinResponse
        var track: LiveKitTrackInfo
    }

    private func enter(_ server: TestServer, _ info: LiveKitRoomInfo, query: String = "") throws -> Stay {
        let room = try server.join(info, query: query)
        guard case .join(let join) = try room.next() else { throw TestClient.TimedOut() }
        try room.answer(try room.offer())
        try room.publish()
        let track = try room.next { if case .trackPublished(let published) = $0 { published.track } else { nil } }
        try room.answer(try room.offer())
        server.engine.rooms.last?.onEvent(.connected(.publisher))
        _ = try room.next { if case .trackSubscribed = $0 { true } else { nil } }
        // The media make that event, so that it can come before the server reads the second answer.
        try room.awaitPong()
        return Stay(room: room, join: join, track: track)
    }

    private func sendState(_ client: RoomClient, _ sids: [String]) throws {
        try client.send {
            $0.syncState.publishTracks = sids.map { sid in .with { ($0.cid, $0.track.sid) = ("camera-1", sid) } }
        }
    }

    private func resume(_ server: TestServer, _ info: LiveKitRoomInfo, _ stay: Stay) throws -> RoomClient {
        try server.join(info, query: "&reconnect=1&reconnect_reason=1&sid=\(stay.join.participant.sid)")
    }

    @Test func theStayContinues() throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            let media = try #require(server.engine.rooms.first)
            stay.room.client.close()
            let room = try resume(server, info, stay)
            guard case .reconnect(let answer) = try room.next() else { throw TestClient.TimedOut() }
            #expect(answer.serverInfo.protocol == 17)
            guard case .update(let update) = try room.next() else { throw TestClient.TimedOut() }
            let (own, worker) = try (#require(update.participants.first), #require(update.participants.last))
            #expect(own.sid == stay.join.participant.sid && own.tracks.map(\.sid) == [stay.track.sid])
            #expect(worker.sid == stay.join.otherParticipants.first?.sid && worker.tracks.count == 1)
            try sendState(room, [stay.track.sid])
            // The offer that restarts ICE carries the same tracks.
            let offer = try room.offer()
            #expect(offer.sdp == "restarted offer" && offer.id == 3)
            #expect(media.reported.last == "restart with video")
            try room.answer(offer)
            try room.awaitPong()
            let session = try #require(server.server.sessions.first)
            #expect((session.room.joinCount, session.room.resumeCount, session.room.offerCount) == (1, 1, 1))
            #expect(server.engine.rooms.count == 1 && media.stopCount == 0)
        }
    }

    /// The former connection is still open, as after a change of network that the server has not noticed.
    @Test func theFormerConnectionIsReplaced() throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            let room = try resume(server, info, stay)
            guard case .reconnect = try room.next() else { throw TestClient.TimedOut() }
            #expect(try stay.room.client.next { $0 == .closed } == .closed)
            try room.awaitPong()
            #expect(server.engine.rooms.first?.stopCount == 0)
        }
    }

    /// An address goes and another comes: two resumes in a row, and the participant answers the offers of both.
    @Test func anAnswerToAnEarlierOfferIsIgnored() throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            let media = try #require(server.engine.rooms.first)
            let answers = media.reported.count { $0.hasPrefix("answer") }
            let early = try resume(server, info, stay).offer()
            let room = try resume(server, info, stay)
            let offer = try room.offer()
            #expect(offer.id == early.id + 1)
            try room.answer(early)
            try room.answer(offer)
            try room.awaitPong()
            #expect(media.reported.count { $0.hasPrefix("answer") } == answers + 1)
        }
    }

    @Test func tracksThatTheRoomDoesNotKnow() throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            stay.room.client.close()
            let room = try resume(server, info, stay)
            try sendState(room, ["TR_unknown"])
            let leave = try room.leave()
            #expect(leave.action == .reconnect && leave.reason == .stateMismatch)
            try room.expectClosed()
            #expect(server.engine.rooms.first?.isStoppedOnce() == true)
        }
    }

    /// The media of a participant have never been connected, so that there is nothing to resume.
    @Test func withoutMediaTheParticipantLeaves() throws {
        try TestServer.run { server in
            let (info, room) = try server.enterRoom()
            _ = try room.offer()
            room.client.close()
            #expect(server.engine.rooms.first?.isStoppedOnce() == true)
            let again = try server.join(info, query: "&reconnect=1&sid=PA_x")
            guard case .leave(let leave) = try again.next() else { throw TestClient.TimedOut() }
            #expect(leave.action == .reconnect && leave.reason == .stateMismatch)
            try again.expectClosed()
        }
    }

    @Test(arguments: ["room_leave_resume", "room_leave_migrate"])
    func onRequest(fault: String) throws {
        try withFaults("\(fault):at=1.5") { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            let leave = try stay.room.leave()
            #expect(leave.action == .resume)
            #expect(leave.regions.regions.map(\.url) == (fault.hasSuffix("migrate") ? ["ws://localhost/region-2"] : []))
            try stay.room.expectClosed()
            guard case .reconnect = try resume(server, info, stay).next() else { throw TestClient.TimedOut() }
            #expect(server.engine.rooms.first?.stopCount == 0)
        }
    }

    @Test func cutTwiceAndDown() throws {
        try withFaults("room_cut:at=1.5,n=2,interval=4,for=1.5") { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            #expect(try stay.room.client.next { $0 == .closed } == .closed)
            #expect(throws: TestClient.Refused(status: 503)) { try resume(server, info, stay) }
            var room: RoomClient?
            let deadline = ContinuousClock.now + .seconds(20)
            while room == nil, .now < deadline { room = try? resume(server, info, stay) }
            guard case .reconnect? = try room?.next() else { throw TestClient.TimedOut() }
            #expect(try room?.client.next { $0 == .closed } == .closed)
            #expect(server.engine.rooms.first?.stopCount == 0)
        }
    }

    @Test func refused() throws {
        try withFaults("room_resume_refused") { server in
            let info = try server.askForRoom().info
            let stay = try enter(server, info)
            stay.room.client.close()
            let leave = try resume(server, info, stay).leave()
            #expect(leave.action == .reconnect && leave.reason == .stateMismatch)
        }
    }

    /// The session ends while its participant has no signalling connection.
    @Test func theEndOfTheSessionEndsAll() throws {
        try TestServer.run { server in
            let (control, info) = try server.askForRoom()
            let stay = try enter(server, info)
            stay.room.client.close()
            control.close()
            #expect(server.engine.rooms.first?.isStoppedOnce() == true)
        }
    }
}
