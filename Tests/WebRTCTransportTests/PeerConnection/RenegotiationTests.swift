import GStreamerKit
import ICE
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// One answerer and several offers, as a LiveKit room sends them: first data channels only, then with a video m-line.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct RenegotiationTests {
        private let application = SampleOffer.session + SampleOffer.application
        private let withVideo =
            SampleOffer.session + SampleOffer.application + SampleOffer.video(direction: "sendonly")

        private func withAnswerer(
            _ change: (inout PeerConnectionConfiguration) -> Void = { _ in }, _ body: (PeerConnection) throws -> Void
        ) throws {
            try withConnection(
                {
                    ($0.direction, $0.acceptsDataChannels) = (.recvonly, true)
                    change(&$0)
                }, body)
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
                // All m-lines share one transport, so its parameters stay.
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

        @Test func anotherVideoIsAnError() throws {
            let changed = withVideo.replacing(
                "m=video 9 UDP/TLS/RTP/SAVPF 96 97", with: "m=video 9 UDP/TLS/RTP/SAVPF 98")
            try withAnswerer { connection in
                _ = try answer(connection, withVideo)
                #expect(throws: PeerConnectionError.self) { try connection.createAnswer(to: changed) }
            }
        }

        /// A track is unpublished and published again: the remote peer may reuse the m-line or add another one.
        @Test func theVideoMovesToAnotherLine() throws {
            func line(_ mid: String, _ direction: String, _ track: String) -> String {
                SampleOffer.video(mid: mid, direction: direction, track: track)
            }
            let wanted = { (msid: String?) in msid == "stream now" }
            try withAnswerer { connection in
                _ = try connection.createAnswer(to: application + line("1", "sendonly", "stream now"), wants: wanted)
                // An m-line that is no longer wanted stays in the answer.
                let withdrawn = try SDPDescription(
                    parsing: connection.createAnswer(to: application + line("1", "inactive", "gone"), wants: wanted))
                #expect(withdrawn.media.map(\.port) == [9, 9] && withdrawn.media[1].has("inactive"))
                let both = application + line("1", "inactive", "gone")
                let moved = try SDPDescription(
                    parsing: connection.createAnswer(to: both + line("7", "sendonly", "stream now"), wants: wanted))
                #expect(
                    moved.media.map { $0.value("mid") } == ["2", "1", "7"] && moved.media.map(\.port) == [9, 9, 9])
                #expect(moved.media[1].has("inactive") && moved.media[2].has("recvonly"))
                #expect(connection.videoDirection == .recvonly && connection.negotiatedCodec == .vp8)
                let back = application + line("1", "sendonly", "stream now") + line("7", "inactive", "gone")
                let returned = try SDPDescription(parsing: connection.createAnswer(to: back, wants: wanted))
                #expect(returned.media[1].has("recvonly") && returned.media[2].has("inactive"))
                // An m-line that was never accepted is rejected with port 0.
                let foreign = try SDPDescription(
                    parsing: connection.createAnswer(to: back + line("8", "sendonly", "foreign"), wants: wanted))
                #expect(foreign.media.map(\.port) == [9, 9, 9, 0])
            }
        }

        // MARK: The remote peer answered first and offers now

        private func withOfferer(_ audio: MediaDirection? = nil, _ body: (PeerConnection) throws -> Void) throws {
            try withConnection({ $0.audio = audio }) { connection in
                _ = try connection.createOffer()
                let answer = SampleOffer.video(mid: "0").replacing("actpass", with: "active")
                let refused = "m=audio 0 UDP/TLS/RTP/SAVPF 0\r\na=mid:1\r\na=inactive\r\n"
                try connection.setAnswer(SampleOffer.session + answer + (audio == nil ? "" : refused))
                #expect(connection.videoDirection == .sendrecv)
                #expect(connection.audioDirection == nil && connection.audioSendParameters == nil)
                try body(connection)
            }
        }

        private func service(_ mid: String, _ direction: String) -> String {
            SampleOffer.video(mid: mid, direction: direction)
        }

        @Test func anOfferWithTheSameLine() throws {
            try withOfferer { connection in
                for (theirs, ours, direction) in [
                    ("sendrecv", "sendrecv", MediaDirection.sendrecv), ("recvonly", "sendonly", .sendonly),
                    ("inactive", "inactive", .inactive), ("sendrecv", "sendrecv", .sendrecv),
                ] {
                    let answer = try answer(connection, SampleOffer.session + service("0", theirs))
                    #expect(answer.media.count == 1 && answer.media[0].has(ours))
                    // The remote peer took the active role in the handshake; the roles stay (RFC 8842 5.5).
                    #expect(answer.media[0].value("setup") == "passive")
                    #expect(connection.videoDirection == direction)
                }
                // An offer of ours leaves the roles open again.
                let offer = try SDPDescription(parsing: connection.createOffer())
                #expect(
                    offer.media.count == 1 && offer.media[0].has("sendrecv")
                        && offer.media[0].value("setup") == "actpass")
            }
        }

        @Test(arguments: [nil, MediaDirection.sendrecv]) func anOfferWithAnotherLine(audio: MediaDirection?) throws {
            try withOfferer(audio) { connection in
                let refused = audio == nil ? "" : "m=audio 0 UDP/TLS/RTP/SAVPF 0\r\na=mid:1\r\na=inactive\r\n"
                let offer = SampleOffer.session + service("0", "recvonly") + refused + service("out", "sendonly")
                let answer = try answer(connection, offer)
                #expect(answer.media.first?.has("sendonly") == true && answer.media.last?.has("recvonly") == true)
                #expect(answer.media.first?.value("msid") != nil && answer.media.last?.value("msid") == nil)
                #expect(answer.media.last?.formats.first == "96")
                #expect(connection.videoDirection == .sendrecv)
                // From now on our offers contain all m-lines, in the same order.
                let later = try SDPDescription(parsing: connection.createOffer())
                #expect(later.media.map { $0.value("mid") } == (audio == nil ? ["0", "out"] : ["0", "1", "out"]))
                #expect(later.media.first?.has("sendrecv") == true && later.media.last?.has("recvonly") == true)
                #expect(audio == nil || later.media[1].port == 0)
            }
        }

        /// We do not reuse an m-line of theirs that we rejected: audio that is added later gets its own.
        @Test func anOfferWithSoundThatIsNotWanted() throws {
            try withOfferer { connection in
                let tone = SampleOffer.audio.replacing("a=mid:0", with: "a=mid:sound")
                let answer = try answer(connection, SampleOffer.session + service("0", "sendrecv") + tone)
                #expect(answer.media.map(\.port) == [9, 0])
                connection.setMedia(video: .sendrecv, audio: .sendrecv)
                let later = try SDPDescription(parsing: connection.createOffer())
                #expect(
                    later.media.map(\.kind) == ["video", "audio", "audio"] && later.media.map(\.port) == [9, 0, 9])
                #expect(later.media.map { $0.value("mid") } == ["0", "sound", "2"] && later.media[2].has("sendrecv"))
            }
        }

        /// A connection has one offer in flight, and answers any number of offers that keep the transport.
        @Test func oneOfferIsInFlight() throws {
            try withConnection { a in
                try withConnection({ $0.audio = .sendrecv }) { b in
                    let offer = try a.createOffer()
                    #expect(throws: PeerConnectionError.self) { try a.createOffer() }
                    #expect(throws: PeerConnectionError.self) { try a.createAnswer(to: offer) }
                    #expect(throws: PeerConnectionError.self) { try b.setAnswer(offer) }
                    // An unreadable offer leaves the connection usable for the next one.
                    #expect(throws: PeerConnectionError.self) { try b.createAnswer(to: "v=0\r\n") }
                    let answer = try b.createAnswer(to: offer)
                    // The same offer again changes nothing. Other ICE credentials would need another connection.
                    #expect(try b.createAnswer(to: offer).hasPrefix("v=0"))
                    #expect(throws: PeerConnectionError.self) { try b.createAnswer(to: SampleOffer.browser) }
                    try a.setAnswer(answer)
                    #expect(throws: PeerConnectionError.self) { try a.setAnswer(answer) }
                    // A late answer to an offer that was rolled back is refused, and the same offer then succeeds.
                    a.setMedia(video: .sendrecv, audio: .sendrecv)
                    let late = try b.createAnswer(to: a.createOffer())
                    a.rollbackOffer()
                    #expect(throws: PeerConnectionError.self) { try a.setAnswer(late) }
                    #expect(a.audioDirection == nil)
                    try a.setAnswer(b.createAnswer(to: a.createOffer()))
                    #expect(a.audioDirection == .sendrecv)
                }
            }
        }

        /// Glare: the remote offer is refused while ours is pending.
        @Test func anOfferWhileOursIsInFlight() throws {
            try withOfferer { connection in
                _ = try connection.createOffer()
                #expect(throws: PeerConnectionError.self) {
                    try connection.createAnswer(to: SampleOffer.session + service("0", "sendrecv"))
                }
                connection.rollbackOffer()
                _ = try answer(connection, SampleOffer.session + service("0", "sendrecv"))
            }
        }

        /// A refused offer changes nothing.
        @Test func anOfferThatCannotBeTaken() throws {
            let bad = [
                service("0", "sendrecv").replacing(
                    "m=video 9 UDP/TLS/RTP/SAVPF 96 97", with: "m=video 9 UDP/TLS/RTP/SAVPF"),
                service("0", "sendrecv").replacing("m=video 9 ", with: "m=video 0 "), "",
            ]
            for text in bad {
                try withOfferer { connection in
                    #expect(throws: PeerConnectionError.self) {
                        try connection.createAnswer(to: SampleOffer.session + text)
                    }
                    #expect(connection.videoDirection == .sendrecv)
                    try #expect(SDPDescription(parsing: connection.createOffer()).media.count == 1)
                }
            }
        }

        /// Two real peers: the answerer moves its video to a new m-line twice, and both keep receiving.
        @Test func theAnswererMovesItsVideo() throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            try TestPeer.startMedia(a, b)
            #expect(a.waitForFrames(5) && b.waitForFrames(5))
            for lines in 2...3 {
                b.connection.moveVideo()
                let offer = try b.connection.createOffer()
                #expect(try SDPDescription(parsing: offer).media.count == lines)
                try b.connection.setAnswer(try a.connection.createAnswer(to: offer))
                #expect(a.connection.videoDirection == .sendrecv && b.connection.videoDirection == .sendrecv)
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
            }
            // Now the peer that offered first offers again.
            try renegotiate(a, b)
            #expect(a.waitForFrames(10) && b.waitForFrames(10))
        }

        @Test func onlyWhatIsWanted() throws {
            let other = SampleOffer.video(mid: "other", track: "foreign x")
            let sdp = SampleOffer.session + other + String(withVideo.dropFirst(SampleOffer.session.count))
            try withAnswerer { connection in
                let answer = try SDPDescription(
                    parsing: connection.createAnswer(to: sdp, wants: { $0 == "stream track" }))
                #expect(answer.media.map { $0.value("mid") } == ["other", "2", "1"])
                #expect(answer.media.map(\.port) == [0, 9, 9])
            }
        }

        /// The first m-line on which the remote peer sends wins over one on which it only receives.
        @Test func theOneThatSends() throws {
            let receiving = SampleOffer.video(mid: "r", direction: "recvonly")
            let sdp = SampleOffer.session + receiving + String(withVideo.dropFirst(SampleOffer.session.count))
            try withAnswerer { connection in
                let answer = try answer(connection, sdp)
                #expect(answer.values("group") == ["BUNDLE 2 1"])
            }
        }

        @Test func directionsAreLimited() throws {
            for (theirs, ours) in [("sendrecv", "recvonly"), ("sendonly", "recvonly")] {
                try withAnswerer { connection in
                    let sdp = try answer(connection, SampleOffer.session + SampleOffer.video(direction: theirs))
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

        /// Plays the server of a room with one connection: it answers each m-line and sends on one that receives.
        @Test func eachLineIsAnswered() throws {
            func video(_ mid: String, _ direction: String) -> String {
                SampleOffer.video(mid: mid, direction: direction, track: nil)
            }
            func audio(_ mid: String, _ direction: String) -> String {
                SampleOffer.audio.replacing("a=mid:0", with: "a=mid:\(mid)")
                    .replacing("a=sendrecv", with: "a=\(direction)")
            }
            try withAnswerer({
                ($0.answersEachSection, $0.audio, $0.msid) = (true, .recvonly, "PA_1|camera TR_1")
            }) { connection in
                let receiving = video("2", "recvonly") + audio("3", "recvonly")
                let offer = SampleOffer.session + video("0", "sendonly") + audio("1", "sendonly") + receiving
                let first = try answer(connection, offer).media
                #expect(first.map { $0.value("mid") } == ["0", "1", "2", "3"])
                #expect(zip(first, ["recvonly", "recvonly", "inactive", "inactive"]).allSatisfy { $0.has($1) })
                #expect(connection.sendMid(.video) == "2" && connection.sendMid(.audio) == "3")
                #expect(connection.videoDirection == .recvonly && connection.audioDirection == .recvonly)

                connection.setMedia(video: .sendrecv, audio: .recvonly)
                let second = try answer(connection, offer + video("4", "recvonly")).media
                #expect(
                    zip(second, ["recvonly", "recvonly", "sendonly", "inactive", "inactive"]).allSatisfy { $0.has($1) })
                #expect(second.map { $0.value("msid") } == [nil, nil, "PA_1|camera TR_1", nil, nil])
                #expect(connection.videoDirection == .sendrecv && connection.audioDirection == .recvonly)

                // The remote peer's tracks are removed; sending continues.
                connection.setMedia(video: .sendrecv, audio: .sendrecv)
                let removed = SampleOffer.session + video("0", "inactive") + audio("1", "inactive") + receiving
                let third = try answer(connection, removed + video("4", "recvonly")).media
                #expect(
                    zip(third, ["inactive", "inactive", "sendonly", "sendonly", "inactive"]).allSatisfy { $0.has($1) })
                #expect(connection.videoDirection == .sendonly && connection.audioDirection == .sendonly)
            }
        }

        /// A receiver has sent RTCP already when it starts to send; its SSRC must stay the one in the description.
        @Test func whatIsSentLaterBearsTheNumberThatTheDescriptionSays() throws {
            var configuration = PeerConnectionConfiguration()
            configuration.direction = .recvonly
            let (a, b) = (try TestPeer(configuration), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            try TestPeer.startMedia(b, a)
            #expect(a.waitForFrames(5))
            #expect(eventually(seconds: 20) { b.connection.statistics().roundTripTime != nil })
            #expect(b.frames == 0)
            a.connection.setMedia(video: .sendrecv, audio: nil)
            let offer = try a.connection.createOffer()
            try a.connection.setAnswer(b.connection.createAnswer(to: offer))
            #expect(b.waitForFrames(5))
            let declared = try #require(
                try SDPDescription(parsing: offer).media[0].values("ssrc").first?.split(separator: " ").first)
            let shown = b.connection.bin.staticPad("rtp_src")?.currentCaps?.first?.int("ssrc")
            #expect(shown.map(String.init) == String(declared))
        }
    }
}
