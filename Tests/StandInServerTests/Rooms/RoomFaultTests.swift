import DecartProtocol
import LiveKitProtocol
import StandInServer
import Testing

/// Faults of a session's room.
@Suite(.timeLimit(.minutes(1)))
struct RoomFaultTests {
    @Test(arguments: [
        ("room_leave_disconnect", LiveKitLeaveRequest.Action.disconnect), ("room_leave_resume", .resume),
        ("room_leave_reconnect", .reconnect),
    ])
    func sentAway(name: String, action: LiveKitLeaveRequest.Action) throws {
        try withFaults("\(name):at=0.5") { server in
            let (info, room) = try server.enterRoom()
            #expect(try room.leave().action == action)
            try room.expectClosed()
            // The fault applies once: the client may stay when it joins again.
            let again = try server.join(info)
            _ = try again.offer()
            try again.awaitPong()
            #expect(server.server.sessions.first?.room.joinCount == 2)
        }
    }

    @Test func intoARunningRoom() throws {
        try TestServer.run { server in
            let (info, room) = try server.enterRoom()
            _ = try room.offer()
            try server.server.inject([Fault(.room(.leaveReconnect))], into: info.sessionID)
            #expect(try room.leave().action == .reconnect)
        }
    }

    /// The output track leaves the room when the generation ends and returns with the next one.
    @Test(arguments: [Fault.Output.same, .republish, .newMID, .newSID])
    func theOutputComesBack(output: Fault.Output) throws {
        try TestServer.run { server in
            let (control, info) = try server.askForRoom()
            let room = try server.join(info, query: "&auto_subscribe=0")
            func subscribe(_ track: LiveKitTrackInfo) throws {
                try room.send { $0.subscription = .with { ($0.trackSids, $0.subscribe) = ([track.sid], true) } }
            }
            try room.answer(try room.offer())
            try room.publish()
            let track = try #require(room.announcedTracks().first)
            try subscribe(track)
            try room.answer(try room.offer())
            let media = try #require(server.engine.rooms.first)
            media.paint()
            #expect(try control.next() == .message(.generationStarted))
            // The pong proves that the answer has arrived.
            try room.awaitPong()
            let before = media.reported.count
            try server.server.inject([Fault(parsing: "generation_restart:delay=0.3,output=\(output.rawValue)")])
            #expect(try control.next() == .message(.generationEnded(seconds: 0, reason: "timeout")))
            if output != .same {
                #expect(try room.announcedTracks().isEmpty)
                try room.answer(try room.offer())
            }
            #expect(try control.next() == .message(.generationStarted))
            if output != .same {
                let again = try #require(room.announcedTracks().first)
                #expect((again.sid == track.sid) == (output != .newSID) && again.sid.hasPrefix("TR_"))
                // A track without a subscription is not offered.
                try subscribe(again)
                _ = try room.offer()
            }
            let reported = media.reported.dropFirst(before).filter { $0 != "faults" }
            let expected: [String] =
                switch output {
                case .newMID: ["track", "answer yes", "move", "track"]
                case .republish, .newSID: ["track", "answer yes", "track"]
                case .same, .newSSRC, .offer: []
                }
            #expect(reported == expected && media.stopCount == 0)
            #expect(server.server.sessions.first?.room.joinCount == 1)
        }
    }

    @Test func slowRoomInfo() throws {
        try withFaults("room_info_slow:delay=0.3") { server in
            let control = try server.connect(TestServer.roomTarget)
            let asked = ContinuousClock.now
            try control.send(.livekitJoin(LiveKitJoin()))
            try control.expectAccepted()
            guard case .message(.livekitRoomInfo) = try control.next() else { throw TestClient.TimedOut() }
            #expect(ContinuousClock.now - asked >= .milliseconds(300))
        }
    }

    /// The room info is sent after the queue.
    @Test func queue() throws {
        try withFaults("queue_n:n=2,interval=0.1") { server in
            let control = try server.connect(TestServer.roomTarget)
            try control.send(.livekitJoin(LiveKitJoin()))
            var kinds: [String] = []
            while kinds.last != "livekit_room_info" {
                guard case .message(let message) = try control.next() else { throw TestClient.TimedOut() }
                kinds.append(message.type)
            }
            #expect(kinds == ["status", "queue_position", "queue_position", "livekit_room_info"])
        }
    }

    @Test func refusedToken() throws {
        try withFaults("room_token_refused") { server in
            let info = try server.askForRoom().info
            #expect(throws: TestClient.Refused(status: 401)) { try server.join(info) }
        }
    }

    @Test func noCandidates() throws {
        try withFaults("room_ice_none") { server in
            let room = try server.enterRoom().room
            _ = try room.offer()
            try room.send {
                $0.trickle = .with {
                    $0.candidateInit = "{\"candidate\":\"candidate:9\",\"sdpMid\":\"0\",\"sdpMLineIndex\":0}"
                }
            }
            try room.send { $0.ping = 1 }
            guard case .pong = try room.next() else { throw TestClient.TimedOut() }
            #expect(server.engine.rooms.first?.reported == [])
        }
    }

    @Test func restart() throws {
        try withFaults("room_restart:at=1") { server in
            let (info, room) = try server.enterRoom()
            #expect(try room.client.next { $0 == .closed } == .closed)
            #expect(server.engine.rooms.first?.isStoppedOnce() == true)
            #expect(try server.join(info).offer().sdp == "offer 1")
        }
    }

    /// A session uses two connections; faults count sessions.
    @Test func countedBySession() throws {
        try withFaults("room_token_refused:after=2,count=1") { server in
            let first = try server.askForRoom()
            _ = try server.join(first.info).offer()
            let second = try server.askForRoom()
            #expect(throws: TestClient.Refused(status: 401)) { try server.join(second.info) }
        }
    }
}
