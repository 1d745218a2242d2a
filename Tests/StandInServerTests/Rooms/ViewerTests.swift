import DecartProtocol
import LiveKitProtocol
import StandInServer
import Testing

/// Viewers of a stand-in session, with fake media.
@Suite(.timeLimit(.minutes(1)))
struct ViewerTests {
    private func post(_ server: TestServer, _ path: String, key: String = "k", method: String = "POST") throws -> String
    {
        try ask(server.port, method, path, extra: "x-api-key: \(key)\r\n")
    }

    private func info(_ answer: String) throws -> LiveKitRoomInfo {
        let body = try #require(answer.firstIndex(of: "{"))
        return try LiveKitRoomInfo(decoding: [UInt8](answer[body...].utf8))
    }

    @Test func aViewerOfARoomTakesAndDoesNotPublish() throws {
        try TestServer.run { server in
            let (control, own) = try server.askForRoom()
            let name = try #require(own.roomName)
            let answer = try post(server, "/base/watch-stream/\(name)?x=1")
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            let viewed = try info(answer)
            #expect(viewed.roomName == name && viewed.sessionID == own.sessionID && viewed.token != own.token)

            let room = try server.join(viewed)
            guard case .join(let join) = try room.next() else { throw TestClient.TimedOut() }
            #expect(join.room.name == name && join.participant.identity.hasPrefix("viewer-"))
            #expect(join.participant.permission.canSubscribe && !join.participant.permission.canPublish)
            // The track exists before it is subscribed to.
            #expect(join.otherParticipants.first?.tracks.first != nil)
            #expect(
                server.server.wait(milliseconds: 20_000) { $0.first?.viewerCount == 1 && $0.first?.room.joinCount == 0 }
            )
            try room.answer(try room.offer())
            try #expect(room.offer().sdp == "offer 2")
            let media = try #require(server.engine.rooms.first)
            #expect(media.reported == ["answer yes", "track"])

            try room.publish()
            let refusal = try room.next { if case .requestResponse(let response) = $0 { response } else { nil } }
            #expect(refusal.reason == .notAllowed)
            // A second viewer joins alongside and replaces none.
            let second = try server.join(try info(try post(server, "/watch-stream/\(name)")))
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.viewerCount == 2 })
            second.client.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.viewerCount == 1 })

            control.close()
            try #expect(room.leave().reason == .roomDeleted)
            try room.expectClosed()
            #expect(media.isStoppedOnce())
            try #expect(post(server, "/watch-stream/\(name)").hasPrefix("HTTP/1.1 404"))
            #expect(throws: TestClient.Refused(status: 401)) { try server.join(viewed) }
            #expect(!server.log.contains { $0.contains(viewed.token.reveal()) })
        }
    }

    @Test func aRoomHasALimit() throws {
        try TestServer.run { server in
            let (control, own) = try server.askForRoom()
            let target = "/watch-stream/\(try #require(own.roomName))"
            var viewers = try (0..<32).map { _ in try server.join(try info(try post(server, target))) }
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.viewerCount == 32 })
            let late = try server.join(try info(try post(server, target)))
            try #expect(late.leave().reason == .joinFailure)
            try late.expectClosed()
            viewers.removeLast().client.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.viewerCount == 31 })
            guard case .join = try server.join(try info(try post(server, target))).next() else {
                throw TestClient.TimedOut()
            }
            control.close()
        }
    }

    @Test func aDirectViewerOffersAndIsTold() throws {
        try TestServer.run { server in
            let owner = try server.greeted()
            let id = try #require(server.server.sessions.first?.sessionID)
            let target = "/subscribe/\(id)?IP=1.2.3.4&port=80&api_key=k"
            let viewer = try server.connect(target)
            try #expect(viewer.next() == .message(.status("ready")))
            try viewer.send(.prompt(PromptMessage(text: "lego", enhance: false)))
            guard case .message(.promptAck(let ack)) = try viewer.next() else { throw TestClient.TimedOut() }
            #expect(!ack.success)
            try viewer.send(.offer(sdp: "v=0"))
            _ = try viewer.next { $0 == .message(.answer(sdp: "answer to v=0")) }
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.viewerCount == 1 })
            #expect(server.server.sessions.last?.offeredBeforeState == false)
            owner.close()
            _ = try viewer.next { $0 == .closeFrame(code: 1000) }
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen && $0.viewerCount == 0 } })
            #expect(server.engine.sessions.count == 1 && server.engine.sessions.allSatisfy { $0.isStoppedOnce() })
            #expect(throws: TestClient.Refused(status: 404)) { try server.connect(target) }
        }
    }

    @Test func requestsThatAreNone() throws {
        try TestServer.run({ $0.keys = KeyPolicy(rejected: ["bad"]) }) { server in
            try #expect(post(server, "/watch-stream/nowhere").hasPrefix("HTTP/1.1 404"))
            try #expect(post(server, "/watch-stream/nowhere", key: "bad").hasPrefix("HTTP/1.1 401"))
            try #expect(post(server, "/watch-stream/nowhere", method: "GET").hasPrefix("HTTP/1.1 405"))
            #expect(throws: TestClient.Refused(status: 404)) { try server.connect("/subscribe/nobody?api_key=k") }
            #expect(throws: TestClient.Refused(status: 401)) { try server.connect("/subscribe/nobody?api_key=bad") }
            #expect(throws: TestClient.Refused(status: 401)) { try server.connect("/subscribe/nobody") }
            #expect(server.server.sessions.isEmpty)
        }
    }
}
