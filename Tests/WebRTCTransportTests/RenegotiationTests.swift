import GStreamerKit
import ICE
import Testing
import WebRTCTransport

/// One answerer, several offers, as a room sends them: data channels alone, then a video beside them.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct RenegotiationTests {
        private let application = SampleOffer.session + SampleOffer.application
        private let withVideo =
            SampleOffer.session + SampleOffer.application
            + SampleOffer.video().replacing("a=sendrecv", with: "a=sendonly")

        private func withAnswerer(
            _ change: (inout PeerConnectionConfiguration) -> Void = { _ in }, _ body: (PeerConnection) throws -> Void
        ) throws {
            GStreamerRuntime.initialise()
            var configuration = PeerConnectionConfiguration()
            configuration.direction = .recvonly
            configuration.acceptsDataChannels = true
            change(&configuration)
            let connection = try PeerConnection(configuration: configuration) { _ in }
            defer {
                connection.close()
                connection.dismantle()
            }
            try body(connection)
        }

        private func answer(_ connection: PeerConnection, _ offer: String) throws -> SDPDescription {
            try SDPDescription(parsing: connection.createAnswer(to: offer))
        }

        @Test func aVideoIsAddedAndTakenAway() throws {
            try withAnswerer { connection in
                let first = try answer(connection, application)
                #expect(first.media.map(\.port) == [9])
                #expect(first.values("group") == ["BUNDLE 2"])
                #expect(connection.negotiatedCodec == nil)
                let second = try answer(connection, withVideo)
                #expect(second.media.map(\.kind) == ["application", "video"])
                #expect(second.media.map(\.port) == [9, 9])
                #expect(second.values("group") == ["BUNDLE 2 1"])
                #expect(second.media[1].has("recvonly") && second.media[1].value("msid") == nil)
                #expect(connection.negotiatedCodec == .vp8)
                // One transport: its parameters stay.
                for name in ["ice-ufrag", "ice-pwd", "fingerprint", "setup"] {
                    #expect(second.media[1].value(name) == first.media[0].value(name))
                }
                let third = try answer(connection, withVideo.replacing("a=sendonly", with: "a=inactive"))
                #expect(third.media[1].has("inactive"))
                let fourth = try answer(connection, withVideo)
                #expect(fourth.media[1].has("recvonly"))
                let fifth = try answer(connection, application)
                #expect(fifth.media.count == 1)
            }
        }

        @Test func refusedWhereTheyAreNotAccepted() throws {
            try withAnswerer({ $0.acceptsDataChannels = false }) { connection in
                #expect(throws: PeerConnectionError.self) { try connection.createAnswer(to: application) }
                let sdp = try answer(connection, withVideo)
                #expect(sdp.media.map(\.port) == [0, 9])
            }
        }

        @Test func anotherVideoOrTransportIsAnError() throws {
            let changes = [
                ("a=mid:1", "a=mid:7"), ("a=ice-ufrag:SAMP", "a=ice-ufrag:OTHR"), ("m=video 9 UDP/TLS/RTP/SAVPF 96 97", "m=video 9 UDP/TLS/RTP/SAVPF 98"),
            ]
            for (old, new) in changes {
                try withAnswerer { connection in
                    _ = try answer(connection, withVideo)
                    #expect(throws: PeerConnectionError.self) { try connection.createAnswer(to: withVideo.replacing(old, with: new)) }
                }
            }
        }

        @Test func onlyWhatIsWanted() throws {
            let other = SampleOffer.video().replacing("a=mid:1", with: "a=mid:other").replacing("stream track", with: "foreign x")
            let sdp = SampleOffer.session + other + withVideo.dropFirst(SampleOffer.session.count)
            try withAnswerer { connection in
                let answer = try SDPDescription(
                    parsing: connection.createAnswer(to: sdp, wants: { $0 == "stream track" }))
                #expect(answer.media.map { $0.value("mid") } == ["other", "2", "1"])
                #expect(answer.media.map(\.port) == [0, 9, 9])
            }
        }

        /// A m-line that the far side sends on goes before one that it would only receive on.
        @Test func theOneThatSends() throws {
            let receiving = SampleOffer.video().replacing("a=mid:1", with: "a=mid:r").replacing("a=sendrecv", with: "a=recvonly")
            let sdp = SampleOffer.session + receiving + withVideo.dropFirst(SampleOffer.session.count)
            try withAnswerer { connection in
                let answer = try answer(connection, sdp)
                #expect(answer.values("group") == ["BUNDLE 2 1"])
            }
        }

        @Test func directionsAreLimited() throws {
            for (theirs, ours) in [("sendrecv", "recvonly"), ("sendonly", "recvonly")] {
                try withAnswerer { connection in
                    let sdp = try answer(connection, SampleOffer.session + SampleOffer.video().replacing("a=sendrecv", with: "a=\(theirs)"))
                    #expect(sdp.media[0].has(ours))
                }
            }
        }

        @Test func anOfferThatOnlySends() throws {
            try withAnswerer({
                $0.direction = .sendonly
                $0.msid = "camera cid"
            }) { connection in
                let sdp = try SDPDescription(parsing: connection.createOffer())
                #expect(sdp.media.map(\.kind) == ["video"])
                #expect(sdp.media[0].has("sendonly") && sdp.media[0].value("msid") == "camera cid")
            }
        }

        /// Sending and receiving each have an m-line, of one RTP session; what is received may be refused, or come later.
        @Test func linesOfTheirOwnForEachDirection() throws {
            GStreamerRuntime.initialise()
            var configuration = PeerConnectionConfiguration()
            (configuration.separatesDirections, configuration.audio) = (true, .recvonly)
            let connection = try PeerConnection(configuration: configuration) { _ in }
            defer {
                connection.close()
                connection.dismantle()
            }
            let offer = try SDPDescription(parsing: connection.createOffer())
            // Those to send on first, also where nothing is sent yet.
            #expect(offer.media.map(\.kind) == ["video", "audio", "video", "audio"])
            let directions = ["sendonly", "inactive", "recvonly", "recvonly"]
            #expect(zip(offer.media, directions).allSatisfy { $0.has($1) })
            #expect(offer.media.map { $0.value("msid") != nil } == [true, false, false, false])
            func line(_ text: String, mid: String, _ direction: String) -> String {
                text.replacing("actpass", with: "active").replacing("a=mid:1", with: "a=mid:\(mid)")
                    .replacing("a=mid:0", with: "a=mid:\(mid)").replacing("a=sendrecv", with: "a=\(direction)")
            }
            let sending = line(SampleOffer.video(), mid: "0", "recvonly")
            func sound(_ mid: String, _ direction: String) -> String { line(SampleOffer.audio, mid: mid, direction) }
            let refused = line(SampleOffer.video(), mid: "2", "inactive").replacing("m=video 9 ", with: "m=video 0 ")
            try connection.setAnswer(SampleOffer.session + sending + sound("1", "inactive") + refused + sound("3", "inactive"))
            #expect(connection.videoDirection == .sendonly && connection.audioDirection == .inactive)
            // What comes is taken where it is wanted.
            let receiving = line(SampleOffer.video(), mid: "2", "sendonly")
            let both = SampleOffer.session + sending + sound("1", "inactive") + receiving + sound("3", "sendonly")
            for (wanted, video, audio) in [("2", MediaDirection.sendrecv, MediaDirection.inactive), ("3", .sendonly, .recvonly)] {
                _ = try connection.createOffer()
                try connection.setAnswer(both) { mid, _ in mid == wanted }
                #expect(connection.videoDirection == video && connection.audioDirection == audio)
            }
            #expect(connection.sendParameters?.payloadType == 96)
            connection.addLines([.video: 2, .audio: -1])
            #expect(try SDPDescription(parsing: connection.createOffer()).media.dropFirst(4).map(\.kind) == ["video", "video"])
            connection.forgetOffer()
            connection.addLines([.video: .max])
            #expect(try SDPDescription(parsing: connection.createOffer()).media.count { $0.kind == "video" } == 17)
        }

        private func withSeparatePair(_ body: (PeerConnection, PeerConnection) throws -> Void) throws {
            GStreamerRuntime.initialise()
            var configuration = PeerConnectionConfiguration()
            (configuration.separatesDirections, configuration.audio, configuration.gathersLater) = (true, .sendrecv, true)
            let ours = try PeerConnection(configuration: configuration) { _ in }
            (configuration.direction, configuration.audio, configuration.acceptsDataChannels) = (.recvonly, .recvonly, true)
            configuration.msid = "PA_1|camera TR_1"
            let theirs = try PeerConnection(configuration: configuration) { _ in }
            defer {
                for peer in [ours, theirs] {
                    peer.close()
                    peer.dismantle()
                }
            }
            try body(ours, theirs)
        }

        /// As the far side of a room's one connection: each line is answered, and ours goes on one that takes it.
        @Test func eachLineIsAnswered() throws {
            try withSeparatePair { ours, theirs in
                func exchange() throws -> [SDPMedia] {
                    let answer = try theirs.createAnswer(to: try ours.createOffer())
                    try ours.setAnswer(answer)
                    return try SDPDescription(parsing: answer).media
                }
                let first = try exchange()
                #expect(first.map { $0.value("mid") } == ["0", "1", "2", "3"])
                #expect(zip(first, ["recvonly", "recvonly", "inactive", "inactive"]).allSatisfy { $0.has($1) })
                #expect(theirs.takingLine(.video) == "2" && theirs.takingLine(.audio) == "3" && ours.takingLine(.video) == nil)
                #expect(theirs.videoDirection == .recvonly && ours.videoDirection == .sendonly)

                theirs.setMedia(video: .sendrecv, audio: .recvonly)
                ours.addLines([.video: 1])
                let second = try exchange()
                #expect(zip(second, ["recvonly", "recvonly", "sendonly", "inactive", "inactive"]).allSatisfy { $0.has($1) })
                #expect(second.map { $0.value("msid") } == [nil, nil, "PA_1|camera TR_1", nil, nil])
                #expect(theirs.videoDirection == .sendrecv && ours.videoDirection == .sendrecv)
                #expect(theirs.audioDirection == .recvonly && ours.audioDirection == .sendonly)

                // Withdrawn; what comes goes on.
                theirs.setMedia(video: .sendrecv, audio: .sendrecv)
                ours.setMedia(video: .recvonly, audio: nil)
                let third = try exchange()
                #expect(zip(third, ["inactive", "inactive", "sendonly", "inactive", "inactive"]).allSatisfy { $0.has($1) })
                #expect(ours.videoDirection == .recvonly && ours.audioDirection == .inactive)
            }
        }

        @Test func candidatesAreLookedForWhenItIsSaid() throws {
            let seen = Watched(0)
            var configuration = PeerConnectionConfiguration()
            configuration.gathersLater = true
            let connection = try PeerConnection(configuration: configuration) { event in
                if case .localCandidate = event { seen.change { $0 += 1 } }
            }
            defer {
                connection.close()
                connection.dismantle()
            }
            // Before there is an agent it is nothing.
            connection.gather(servers: [], policy: .all)
            _ = try connection.createOffer()
            letTheNetworkThreadRun()
            #expect(seen.value == 0)
            connection.gather(servers: [], policy: .all)
            #expect(seen.wait(.seconds(5)) { $0 > 0 })
        }

        /// Who receives first has reported already when it begins to send.
        @Test func whatIsSentLaterBearsTheNumberThatTheDescriptionSays() throws {
            GStreamerRuntime.initialise()
            var configuration = PeerConnectionConfiguration()
            configuration.direction = .recvonly
            let a = try TestPeer(configuration)
            let b = try TestPeer()
            defer {
                a.stop()
                b.stop()
            }
            try join(a, b)
            try b.startMedia()
            try a.startMedia()
            #expect(a.waitForFrames(5))
            #expect(settles(within: .seconds(10)) { b.connection.statistics().roundTripTime != nil })
            #expect(b.frames == 0)
            a.connection.setMedia(video: .sendrecv, audio: nil)
            let offer = try a.connection.createOffer()
            try a.connection.setAnswer(b.connection.createAnswer(to: offer))
            #expect(b.waitForFrames(5))
            let declared = try #require(try SDPDescription(parsing: offer).media[0].values("ssrc").first?.split(separator: " ").first)
            let rtpbin = try #require(b.connection.bin.allElements.first { $0.factoryName == "rtpbin" })
            #expect(rtpbin.staticPad("recv_rtp_src_0_\(declared)_96") != nil)
        }
    }
}
