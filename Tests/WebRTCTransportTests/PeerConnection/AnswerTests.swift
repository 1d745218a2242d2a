import GStreamerKit
import Testing
import WebRTCTransport

/// Tests `createAnswer` through the connection, with offers in the style of other implementations.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct AnswerTests {
        private func answer(_ offer: String, audio: MediaDirection? = nil) throws -> SDPDescription {
            try withConnection({ $0.audio = audio }) { try SDPDescription(parsing: $0.createAnswer(to: offer)) }
        }

        @Test func toABrowser() throws {
            let sdp = try answer(SampleOffer.browser)
            #expect(sdp.media.map(\.kind) == ["audio", "video", "application"])
            #expect(sdp.media.map(\.port) == [0, 9, 0])
            #expect(sdp.media.map { $0.value("mid") } == ["0", "1", "2"])
            #expect(sdp.values("group") == ["BUNDLE 1"])
            let video = sdp.media[1]
            #expect(video.formats == ["96", "97"])
            #expect(video.values("rtpmap") == ["96 VP8/90000", "97 rtx/90000"])
            #expect(video.value("setup") == "active")
            #expect(video.has("rtcp-mux") && video.has("sendrecv"))
            #expect(Set(video.values("extmap").map { $0.prefix(1) }) == ["2", "4", "9"])
            #expect(
                Set(video.values("rtcp-fb")) == [
                    "96 nack", "96 nack pli", "96 ccm fir", "96 goog-remb", "96 transport-cc",
                ])
            #expect(video.values("fingerprint").count == 1)
            #expect(video.values("ssrc").count == 2)
        }

        @Test func soundIsTakenWhereItIsWanted() throws {
            // Like libwebrtc's offers: several audio codecs, and transport attributes only in the first m-line.
            let many = SampleOffer.audio.replacing("SAVPF 111", with: "SAVPF 63 111 9 0")
                .replacing(
                    "a=rtpmap:111 ",
                    with: "a=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\na=rtpmap:9 G722/8000\r\na=rtpmap:111 ")
            let bare = SampleOffer.video(without: ["a=ice-ufrag", "a=ice-pwd", "a=fingerprint", "a=setup"])
            let first = try answer(SampleOffer.session + many + bare, audio: .sendrecv)
            #expect(first.media.map(\.port) == [9, 9])
            #expect(first.values("group") == ["BUNDLE 0 1"])
            let tone = first.media[0]
            #expect(tone.formats == ["63", "111"] && tone.values("rtpmap") == ["111 opus/48000/2", "63 red/48000/2"])
            #expect(tone.values("fmtp") == ["111 minptime=10;useinbandfec=1", "63 111/111"])
            #expect(tone.has("sendrecv") && tone.has("rtcp-mux") && tone.values("ssrc").count == 1)
            // The remote peer synchronises audio and video (lip sync) only if they share a stream ID and a CNAME.
            let streams = first.media.map { $0.value("msid")?.split(separator: " ").first }
            let names = first.media.map { $0.value("ssrc")?.split(separator: " ").last }
            #expect(streams[0] == streams[1] && names[0] == names[1] && names[0]?.hasPrefix("cname:") == true)

            let second = try answer(SampleOffer.session + SampleOffer.video() + SampleOffer.audio, audio: .recvonly)
            #expect(second.media.map(\.kind) == ["video", "audio"] && second.media.map(\.port) == [9, 9])
            #expect(second.media[1].has("recvonly") && second.media[1].value("msid") == nil)
        }

        /// Redundancy of another codec, or without parameters, is none of ours; its place in the m-line is kept.
        @Test(arguments: [
            ("63 111", "63 111/111", ["63", "111"]), ("111 63", "63 111/111/111", ["111", "63"]),
            ("111 63", "63 0/0", ["111"]), ("111 63", "63 111", ["111"]), ("111 63", "64 111/111", ["111"]),
            ("111 63", "63 111/63", ["111"]), ("111 63", "63 /", ["111"]),
        ])
        func redundancyIsThatOfOpus(formats: String, parameters: String, taken: [String]) throws {
            let audio = SampleOffer.audio.replacing("SAVPF 111", with: "SAVPF \(formats)")
                .replacing("a=rtpmap:111 ", with: "a=rtpmap:63 red/48000/2\r\na=fmtp:\(parameters)\r\na=rtpmap:111 ")
            let tone = try answer(SampleOffer.session + audio + SampleOffer.video(), audio: .sendrecv).media[0]
            #expect(tone.formats == taken)
        }

        @Test(arguments: ["PCMU/8000", "opus/48000/1", "opus/8000/2", "opus"])
        func soundWithoutOpusIsRefused(codec: String) throws {
            let offer =
                SampleOffer.session + SampleOffer.audio.replacing("opus/48000/2", with: codec) + SampleOffer.video()
            #expect(try answer(offer, audio: .sendrecv).media.map(\.port) == [0, 9])
        }

        @Test(arguments: [
            ("sendrecv", "sendrecv"), ("sendonly", "recvonly"), ("recvonly", "sendonly"), ("inactive", "inactive"),
        ])
        func directions(theirs: String, ours: String) throws {
            let offer = SampleOffer.session + SampleOffer.video(direction: theirs)
            let video = try #require(answer(offer).media.first)
            #expect(video.has(ours))
            #expect(video.values("ssrc").isEmpty == (ours == "recvonly" || ours == "inactive"))
        }

        @Test(arguments: [("actpass", "active"), ("active", "passive"), ("passive", "active")])
        func roles(theirs: String, ours: String) throws {
            let offer = SampleOffer.session + SampleOffer.video().replacing("setup:actpass", with: "setup:\(theirs)")
            #expect(try answer(offer).media.first?.value("setup") == ours)
        }

        /// Payload types of H.264 in the order of the offer, and the one that the answer takes: constrained baseline, which
        /// we send, or another profile if there is no other, and then exactly that one (RFC 6184 8.2.2).
        @Test(
            arguments: [
                // Chromium, libwebrtc on iOS, an SFU with a track of a hardware encoder or of a camera.
                ([(102, "42001f"), (108, "42e01f"), (127, "4d001f"), (112, "64001f")], 102, "42e01f"),
                ([(96, "640c34"), (98, "42e034")], 98, "42e01f"), ([(104, "640c1f")], 104, "640c1f"),
                ([(112, "640032"), (102, "42e01f;packetization-mode=0")], 112, "640032"),
                ([(39, "4D001F")], 39, "4D001F"), ([(96, "6e001f"), (98, "7a001f"), (100, "f4001f")], nil, nil),
            ] as [([(Int, String)], Int?, String?)])
        func profilesOfH264(offered: [(Int, String)], type: Int?, profile: String?) throws {
            var lines = ""
            for (type, profile) in offered {
                let mode = profile.contains("mode") ? "" : "packetization-mode=1;"
                lines += "a=rtpmap:\(type) H264/90000\r\n"
                lines += "a=fmtp:\(type) level-asymmetry-allowed=1;\(mode)profile-level-id=\(profile)\r\n"
            }
            let types = offered.map { "\($0.0)" }.joined(separator: " ")
            let video =
                SampleOffer.video(without: ["a=rtpmap", "a=fmtp", "a=rtcp-fb"])
                .replacing("SAVPF 96 97 98 99 102 103", with: "SAVPF \(types)") + lines
            guard let type, let profile else {
                #expect(throws: PeerConnectionError.self) { try answer(SampleOffer.session + video) }
                return
            }
            let answered = try #require(answer(SampleOffer.session + video).media.first)
            #expect(answered.formats == ["\(type)"])
            #expect(answered.value("fmtp")?.hasSuffix("profile-level-id=\(profile)") == true)
        }

        @Test func withoutFeedbackOrRetransmission() throws {
            let offer =
                SampleOffer.session
                + SampleOffer.video(without: ["a=rtcp-fb", "a=extmap", "a=rtpmap:97", "a=fmtp:97"])
            let video = try #require(answer(offer).media.first)
            #expect(video.formats == ["96"])
            #expect(video.values("rtcp-fb").isEmpty && video.values("extmap").isEmpty)
            #expect(video.values("ssrc-group").isEmpty)
        }

        /// Creates whole connections from damaged offers: each accepted offer gets an agent and an RTP session.
        @Test func damagedOffers() throws {
            var mutator = TextMutator(seed: 77)
            let seed = Array(SampleOffer.browser.utf8)
            var answered = 0
            for _ in 0..<150 {
                let offer = String(decoding: mutator.mutate(seed), as: UTF8.self)
                do {
                    let sdp = try answer(offer)
                    #expect(!sdp.media.isEmpty)
                    answered += 1
                } catch is PeerConnectionError {}
            }
            #expect(answered > 20 && answered < 150)
        }
    }
}
