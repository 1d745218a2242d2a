import DecartProtocol
import LiveKitProtocol
import StandInServer
import TestSupport
import Testing

/// The room of a session, with fake media.
@Suite(.timeLimit(.minutes(1)))
struct RoomTests {
    @Test func theWholeWay() throws {
        try TestServer.run { server in
            let (control, info) = try server.askForRoom()
            #expect(info.url == "ws://localhost")
            #expect(info.roomName?.isEmpty == false && info.sessionID?.isEmpty == false)
            try control.expectAccepted()

            let room = try server.join(info)
            guard case .join(let join) = try room.next() else { throw TestClient.TimedOut() }
            #expect(join.room.name == info.roomName && join.room.sid.hasPrefix("RM_"))
            #expect(join.participant.sid.hasPrefix("PA_") && !join.participant.identity.isEmpty)
            #expect(join.participant.permission.canSubscribe && join.participant.permission.canPublish)
            #expect(join.subscriberPrimary && join.fastPublish && join.pingInterval > 0 && join.pingTimeout > 0)
            let other = try #require(join.otherParticipants.first)
            #expect(other.identity.hasPrefix("inference-server-") && other.state == .active && other.tracks.isEmpty)
            guard case .refreshToken(let token) = try room.next() else { throw TestClient.TimedOut() }
            #expect(token.split(separator: ".").count == 3)

            let first = try room.offer()
            #expect(first.sdp == "offer 1" && first.id == 1)
            for (candidate, isFinal) in [("candidate:1", false), ("candidate:2", true)] {
                guard case .trickle(let trickle) = try room.next() else { throw TestClient.TimedOut() }
                #expect(trickle.candidateInit.contains(candidate) && trickle.target == .subscriber)
                #expect(trickle.final == isFinal)
            }
            try room.answer(first)
            try room.publish()
            guard case .trackPublished(let published) = try room.next() else { throw TestClient.TimedOut() }
            #expect(published.cid == "camera-1" && published.track.sid.hasPrefix("TR_"))
            guard case .answer(let answer) = try room.next() else { throw TestClient.TimedOut() }
            #expect(answer.sdp == "answer to video" && answer.id == 7)
            // The track is announced before it is offered.
            guard case .update(let update) = try room.next() else { throw TestClient.TimedOut() }
            let track = try #require(update.participants.first?.tracks.first)
            #expect(update.participants.first?.sid == other.sid && track.type == .video)
            #expect(try room.offer().sdp == "offer 2")
            let media = try #require(server.engine.rooms.first)
            #expect(media.room?.participantSID == other.sid)
            #expect(media.reported == ["answer yes", "offer video", "track"])

            media.onEvent(.connected(.subscriber))
            media.onEvent(.connected(.publisher))
            // The participant sees itself, and that its track has a subscriber.
            guard case .update(let own) = try room.next() else { throw TestClient.TimedOut() }
            #expect(own.participants.first?.state == .active && own.participants.first?.tracks.first?.mid == "0")
            #expect(own.participants.first?.tracks.first?.mimeType == "video/VP8")
            guard case .subscribedQualityUpdate(let wanted) = try room.next() else { throw TestClient.TimedOut() }
            #expect(wanted.trackSid == published.track.sid && wanted.subscribedQualities.allSatisfy(\.enabled))
            guard case .trackSubscribed(let subscribed) = try room.next() else { throw TestClient.TimedOut() }
            #expect(subscribed.trackSid == published.track.sid)
            media.paint()
            #expect(try control.next() == .message(.generationStarted))
            #expect(try control.next() == .message(.generationTick(seconds: 1)))
            let session = try #require(server.server.sessions.first)
            #expect(session.requestedRoom && session.room.joinCount == 1 && session.frames.raw == 0)

            try room.send { $0.leave = .with { $0.reason = .clientInitiated } }
            try room.expectClosed()
            control.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
            #expect(media.isStoppedOnce())
            let log = server.log.joined()
            #expect(!log.contains(info.token.reveal()) && !log.contains(token))
        }
    }

    /// Audio is announced and offered as long as the client sends it, with one offer in flight at a time.
    @Test func soundComesAndGoes() throws {
        try TestServer.run { server in
            let room = try server.enterRoom().room
            let first = try room.offer()
            try room.answer(first)
            try room.publish()
            let second = try room.offer()
            // No third offer while the second is unanswered.
            try room.send {
                $0.addTrack = .with { ($0.cid, $0.type, $0.source) = ("voice-1", .audio, .microphone) }
            }
            try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video audio", 8) } }
            let tracks = try room.announcedTracks()
            #expect(tracks.map(\.type) == [.video, .audio] && tracks.last?.source == .microphone)
            try room.send { $0.ping = 1 }
            let answer = try room.next {
                if case .pong(let time) = $0 { time > 0 } else if case .offer = $0 { false } else { nil }
            }
            #expect(answer)
            let media = try #require(server.engine.rooms.first)
            #expect(!media.reported.contains("track and sound"))
            try room.answer(second)
            let third = try room.offer()
            #expect(media.reported.last == "track and sound")
            try room.answer(third)
            // Unpublished audio must be announced again.
            try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video", 9) } }
            let own = try room.announcedTracks()
            #expect(own.map(\.source) == [.camera] && own.first?.sid != tracks.first?.sid)
            _ = try room.offer()
            #expect(media.reported.last == "track")
        }
    }

    /// The client's wish is in both descriptions of its audio, and holds for the way back.
    @Test(arguments: [true, false]) func redundancyOfAudio(isDisabled: Bool) throws {
        try TestServer.run { server in
            let room = try server.enterRoom().room
            try room.answer(try room.offer())
            try room.send {
                $0.addTrack = .with {
                    ($0.cid, $0.type, $0.source, $0.disableRED) = ("voice-1", .audio, .microphone, isDisabled)
                }
            }
            let published = try room.next { if case .trackPublished(let answer) = $0 { answer.track } else { nil } }
            #expect(published.disableRED == isDisabled)
            try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video audio", 8) } }
            let tracks = try room.announcedTracks()
            #expect(tracks.last?.type == .audio && tracks.last?.disableRED == isDisabled)
            #expect(tracks.first?.type == .video && tracks.first?.disableRED == false)
        }
    }

    /// The output has trailers if the client announced them for its track and supports them itself, and the server does.
    @Test(arguments: [(true, true), (false, true), (true, false)])
    func trailers(client: Bool, server: Bool) throws {
        try TestServer.run({ $0.rooms.carriesTrailers = server }) { standIn in
            let info = try standIn.askForRoom().info
            let room = try standIn.join(info, query: client ? "&capabilities=CAP_X,CAP_PACKET_TRAILER" : "")
            try room.answer(try room.offer())
            try room.send {
                $0.addTrack = .with {
                    ($0.cid, $0.type, $0.source) = ("camera-1", .video, .camera)
                    $0.packetTrailerFeatures = [.ptfFrameID, .ptfUserTimestamp, .ptfFrameID]
                }
            }
            let published = try room.next { if case .trackPublished(let answer) = $0 { answer.track } else { nil } }
            #expect(published.packetTrailerFeatures == (server ? [.ptfFrameID, .ptfUserTimestamp] : []))
            try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video", 8) } }
            let tracks = try room.announcedTracks()
            #expect(tracks.first?.packetTrailerFeatures == (client && server ? [.ptfFrameID, .ptfUserTimestamp] : []))
        }
    }

    /// The initial state may be part of the join; it is then acknowledged before the room info.
    @Test func stateInTheJoin() throws {
        try TestServer.run { server in
            let control = try server.connect(TestServer.roomTarget)
            let prompt = PromptMessage(text: "lego", enhance: false)
            try control.send(.livekitJoin(LiveKitJoin(initialState: .prompt(prompt))))
            #expect(try control.next() == .message(.promptAck(PromptAck(prompt: "lego", success: true))))
            guard case .message(.livekitRoomInfo) = try control.next() else { throw TestClient.TimedOut() }
        }
    }

    @Test func whichWaysAreServed() throws {
        try TestServer.run({ $0.transports = [.webrtc] }) { server in
            let control = try server.greeted(TestServer.roomTarget)
            try control.send(.livekitJoin(LiveKitJoin()))
            guard case .message(.error(let reason, _, _)) = try control.next() else { throw TestClient.TimedOut() }
            #expect(reason.contains("livekit_join"))
        }
        try TestServer.run({ $0.transports = [.livekit] }) { server in
            let control = try server.connect()
            try control.send(.offer(sdp: "v=0"))
            guard case .message(.error(let reason, _, _)) = try control.next() else { throw TestClient.TimedOut() }
            #expect(reason.contains("livekit_join"))
        }
        // With both transports enabled, an old client is served as before.
        try TestServer.run { server in _ = try server.negotiate().client.close() }
    }

    @Test func refusals() throws {
        try TestServer.run { server in
            let (control, info) = try server.askForRoom()
            let token = info.token.reveal()
            func status(_ target: String) -> UInt? {
                do {
                    _ = try TestClient(port: server.port, target: target)
                    return nil
                } catch { return (error as? TestClient.Refused)?.status }
            }
            func join(_ text: String) -> UInt? { status("/rtc/v1?access_token=\(token)&join_request=\(text)") }
            let text = try RoomClient.text { $0.joinRequest = [0x0a, 0] }
            #expect(join("") == 400 && join("AAAA") == 400 && text.hasSuffix("="))
            // LiveKit's servers require the Base64 padding.
            #expect(join(text.replacing("=", with: "")) == 400)
            // An empty request compressed with gzip: complete, truncated, and with a wrong checksum.
            for (tail, answer) in [([0, 0, 0, 0], nil), ([], 400), ([1, 0, 0, 0], 400)] as [([UInt8], UInt?)] {
                let packed: [UInt8] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0] + tail
                let text = try RoomClient.text { ($0.compression, $0.joinRequest) = (.gzip, packed) }
                #expect(join(text) == answer)
            }
            #expect(status("/rtc/v1/validate?access_token=\(token)") == 200)
            #expect(status("/rtc/v1") == 401)
            #expect(status("/rtc/validate?access_token=\(token)") == 200)
            #expect(status("/rtc") == 401)
            #expect(status("/rtc?access_token=") == 401)
            #expect(status("/rtc?access_token=\(token.dropLast(2))AA") == 401)
            // The claims of one token with the signature of another.
            let other = try server.askForRoom()
            let parts = token.split(separator: ".")
            let claims = other.info.token.reveal().split(separator: ".")
            #expect(status("/rtc?access_token=\(parts[0]).\(claims[1]).\(parts[2])") == 401)
            #expect(status("/rtc?access_token=\(String(repeating: "a.", count: 5000))") == 401)
            other.control.close()
            // The room ends with the session.
            control.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
            #expect(status("/rtc?access_token=\(token)") == 401)
        }
    }

    // MARK: Single connection

    private func single(_ sdp: String) -> LiveKitJoinRequest {
        .with {
            $0.connectionSettings = .with { $0.autoSubscribe = true }
            $0.addTrackRequests = [.with { ($0.cid, $0.type) = ("camera-1", .video) }]
            $0.publisherOffer = .with { ($0.type, $0.sdp, $0.id) = ("offer", sdp, 7) }
        }
    }

    /// The participant offers, including an m-line for the track that it receives.
    @Test(arguments: [true, false]) func oneConnection(hasSpare: Bool) throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let join = single(hasSpare ? "video spare" : "video")
            let room = try RoomClient(port: server.port, token: info.token.reveal(), single: join)
            guard case .join(let joined) = try room.next() else { throw TestClient.TimedOut() }
            #expect(!joined.subscriberPrimary)
            guard case .refreshToken = try room.next() else { throw TestClient.TimedOut() }
            guard case .trackPublished(let published) = try room.next() else { throw TestClient.TimedOut() }
            #expect(published.cid == "camera-1")
            guard case .answer(let answer) = try room.next() else { throw TestClient.TimedOut() }
            #expect(answer.id == 7 && answer.midToTrackID.isEmpty)
            guard case .update(let update) = try room.next() else { throw TestClient.TimedOut() }
            let track = try #require(update.participants.first?.tracks.first)
            guard case .subscriptionPermissionUpdate = try room.next() else { throw TestClient.TimedOut() }
            guard case .mediaSectionsRequirement(let needed) = try room.next() else { throw TestClient.TimedOut() }
            #expect(needed.numVideos == (hasSpare ? 0 : 1) && needed.numAudios == 0)

            try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video and audio spare", 8) } }
            guard case .answer(let second) = try room.next() else { throw TestClient.TimedOut() }
            #expect(second.id == 8 && second.midToTrackID == ["2": track.sid])
            guard case .update(let more) = try room.next() else { throw TestClient.TimedOut() }
            let tone = try #require(more.participants.first?.tracks.last)
            #expect(tone.type == .audio)
            guard case .subscriptionPermissionUpdate = try room.next() else { throw TestClient.TimedOut() }
            guard case .mediaSectionsRequirement = try room.next() else { throw TestClient.TimedOut() }
            try room.send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video and audio spare", 9) } }
            guard case .answer(let third) = try room.next() else { throw TestClient.TimedOut() }
            #expect(third.midToTrackID == ["2": track.sid, "3": tone.sid])

            let media = try #require(server.engine.rooms.first)
            #expect(media.room?.isSingle == true)
            #expect(media.reported.filter { $0.hasPrefix("track") } == ["track", "track and sound"])
            let session = try #require(server.server.sessions.first)
            #expect(session.room.joinCount == 1 && session.room.singleJoinCount == 1 && session.malformedCount == 0)
            #expect(!server.log.joined().contains(info.token.reveal()))
        }
    }

    @Test func oneConnectionIsNotServedByEverybody() throws {
        try TestServer.run({ $0.rooms.servesSingleConnections = false }) { server in
            let info = try server.askForRoom().info
            let error = thrown(TestClient.Refused.self) {
                try RoomClient(port: server.port, token: info.token.reveal(), single: single("video"))
            }
            #expect(error?.status == 404)
            #expect(try server.join(info).offer().sdp == "offer 1")
        }
    }

    /// Without auto_subscribe the track is offered after the client subscribes.
    @Test func subscriptionByHand() throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let room = try server.join(info, query: "&auto_subscribe=0")
            try room.answer(try room.offer())
            try room.publish()
            let sid = try room.next { message -> String? in
                if case .update(let update) = message { update.participants.first?.tracks.first?.sid } else { nil }
            }
            try room.send { $0.pingReq = .with { $0.timestamp = 42 } }
            let pong = try room.next { message -> LiveKitPong? in
                #expect(message != .offer(LiveKitSessionDescription()))
                return if case .pongResp(let pong) = message { pong } else { nil }
            }
            #expect(pong.lastPingTimestamp == 42 && pong.timestamp > 1_600_000_000_000)
            #expect(server.engine.rooms.first?.reported.contains("track") == false)
            try room.send { $0.subscription = .with { ($0.subscribe, $0.trackSids) = (true, [sid]) } }
            #expect(try room.offer().sdp == "offer 2")
        }
    }

    @Test func candidatesOfBothSides() throws {
        try TestServer.run { server in
            let room = try server.enterRoom().room
            _ = try room.offer()
            for (json, target) in [
                ("{\"candidate\":\"candidate:9\",\"sdpMid\":\"0\",\"sdpMLineIndex\":0}", LiveKitSignalTarget.publisher),
                ("{\"candidate\":\"\",\"sdpMid\":\"0\",\"sdpMLineIndex\":0}", .subscriber), ("{]", .publisher),
                ("", .publisher),
            ] {
                try room.send { $0.trickle = .with { ($0.candidateInit, $0.target) = (json, target) } }
            }
            try room.awaitPong()
            #expect(server.engine.rooms.first?.reported == ["publisher candidate:9", "subscriber end"])
        }
    }

    @Test func theLaterOneTakesThePlace() throws {
        try TestServer.run { server in
            let (control, info) = try server.askForRoom()
            let first = try server.join(info)
            _ = try first.offer()
            let second = try server.join(info)
            let leave = try first.leave()
            #expect(leave.reason == .duplicateIdentity && leave.action == .disconnect)
            try first.expectClosed()
            _ = try second.offer()
            // The stand-in records the end one event loop turn after the socket has closed.
            try second.awaitPong()
            #expect(server.engine.rooms.count == 2)
            #expect(server.engine.rooms.first?.isStoppedOnce() == true)
            #expect(server.engine.rooms.last?.stopCount == 0)
            control.close()
            let end = try second.leave()
            #expect(end.reason == .roomDeleted && end.action == .disconnect)
            try second.expectClosed()
        }
    }

    @Test func nonsenseIsSurvived() throws {
        try TestServer.run { server in
            let (info, room) = try server.enterRoom()
            _ = try room.offer()
            for length in [0, 1, 7, 300] { room.client.send(.binary, [UInt8](repeating: 0xff, count: length)) }
            for index in 0..<40 {
                try room.send { $0.addTrack = .with { ($0.cid, $0.type) = ("cid \(index)", .audio) } }
            }
            let refusal = try room.next { if case .requestResponse(let response) = $0 { response } else { nil } }
            #expect(refusal.reason == .notAllowed && refusal.addTrack.cid == "cid 20")
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.malformedCount == 3 })
            room.client.sendText("{}".utf8)
            #expect(try room.client.next { $0 == .closeFrame(code: 1003) } == .closeFrame(code: 1003))
            // The session continues.
            #expect(try server.join(info).offer().sdp == "offer 1")
        }
    }

    @Test func failedMediaAreMadeAnew() throws {
        try TestServer.run { server in
            let (info, room) = try server.enterRoom()
            _ = try room.offer()
            let media = try #require(server.engine.rooms.first)
            media.onEvent(.failed("the path is dead"))
            #expect(try room.leave().action == .reconnect)
            try room.expectClosed()
            #expect(server.server.sessions.first?.mediaFailure == "the path is dead")
            #expect(try server.join(info).offer().sdp == "offer 1")
        }
    }
}
