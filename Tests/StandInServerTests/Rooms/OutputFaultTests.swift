import DecartProtocol
import LiveKitProtocol
import RTP
import StandInServer
import Testing
import WebRTCTransport

/// What a room does to its inference server's tracks.
@Suite(.timeLimit(.minutes(1)))
struct OutputFaultTests {
    /// Enters a room without automatic subscriptions, publishes, and subscribes to the output.
    private func run(
        _ body: (_ server: TestServer, _ room: RoomClient, _ track: LiveKitTrackInfo, _ media: FakeMedia) throws -> Void
    ) throws {
        try TestServer.run { server in
            let info = try server.askForRoom().info
            let room = try server.join(info, query: "&auto_subscribe=0")
            try room.answer(try room.offer())
            try room.publish()
            let track = try #require(room.announcedTracks().first)
            try room.subscribe(track.sid)
            try room.answer(try room.offer())
            try room.awaitPong()
            try body(server, room, track, try #require(server.engine.rooms.first))
        }
    }

    private func inject(_ text: String, _ server: TestServer) throws {
        try server.server.inject([Fault(parsing: text)])
    }

    @Test func theRoomPausesTheOutput() throws {
        try run { server, room, track, media in
            try inject("room_pause:for=0.2", server)
            for state in [LiveKitStreamState.paused, .active] {
                let update = try room.next { if case .streamStateUpdate(let update) = $0 { update } else { nil } }
                #expect(update.streamStates.map(\.state) == [state] && update.streamStates[0].trackSid == track.sid)
            }
            try room.awaitPong()
            #expect(media.addedFaults.contains { $0.kind == .media(.silent) && $0.for == 0.2 })
            #expect(media.reported.last == "keyframe")
        }
    }

    @Test func theServiceMutesItsTrack() throws {
        try run { server, room, _, _ in
            try inject("room_mute_output:for=0.2", server)
            #expect(try room.announcedTracks().map(\.muted) == [true])
            #expect(try room.announcedTracks().map(\.muted) == [false])
        }
    }

    @Test(arguments: ["room_second_track", "room_second_server"]) func anotherTrack(name: String) throws {
        try run { server, room, track, media in
            try inject("\(name):for=0.5", server)
            let update = try room.next { if case .update(let update) = $0 { update.participants.first } else { nil } }
            let extra = try #require(update.tracks.last)
            #expect(extra.sid != track.sid && update.identity.hasPrefix("inference-server-"))
            #expect(update.tracks.count == (name == "room_second_track" ? 2 : 1))
            try room.subscribe(extra.sid)
            let permission = try room.next {
                if case .subscriptionPermissionUpdate(let permission) = $0 { permission } else { nil }
            }
            #expect(permission.trackSid == extra.sid && permission.participantSid == update.sid)
            try room.answer(try room.offer())
            let gone = try room.next { if case .update(let update) = $0 { update.participants.first } else { nil } }
            #expect(!gone.tracks.contains { $0.sid == extra.sid } && gone.sid == update.sid)
            #expect(gone.state == (name == "room_second_track" ? .active : .disconnected))
            _ = try room.offer()
        }
    }

    @Test func theCodecChanges() throws {
        try run { server, room, _, media in
            try inject("room_codec_change:codec=vp9", server)
            while !media.reported.contains("codec vp9") { try room.awaitPong() }
        }
    }

    @Test func theMediaEndBeforeTheReason() throws {
        try run { server, room, _, media in
            try inject("room_alert_first", server)
            #expect(try room.leave().reason == .participantRemoved)
            #expect(media.reported.contains("close"))
        }
    }

    /// The track stays unsubscribed, and the connection lives.
    @Test func anAnswerWithoutTheCodec() throws {
        try run { _, room, track, media in
            let stream = OutputStream(msid: "a b", ssrc: 1, rtxSSRC: 2)
            media.onEvent(.bound([TrackBinding(OutputTrack(.video, sid: track.sid), stream, payloadType: nil)]))
            let response = try room.next {
                if case .subscriptionResponse(let response) = $0 { response } else { nil }
            }
            #expect(response.err == .seCodecUnsupported && response.trackSid == track.sid)
            // The track leaves the offers, until the participant subscribes again.
            try room.answer(try room.offer())
            try room.subscribe(track.sid)
            _ = try room.offer()
        }
    }
}
