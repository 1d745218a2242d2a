import GStreamerKit
import Testing
import WebRTCTransport

/// createAnswer to offers of others, through the connection itself.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct AnswerTests {
        private func answer(_ offer: String) throws -> SDPDescription {
            GStreamerRuntime.initialise()
            let connection = try PeerConnection(configuration: PeerConnectionConfiguration()) { _ in }
            defer {
                connection.close()
                connection.dismantle()
            }
            return try SDPDescription(parsing: connection.createAnswer(to: offer))
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
            #expect(Set(video.values("rtcp-fb")) == ["96 nack", "96 nack pli", "96 ccm fir", "96 goog-remb", "96 transport-cc"])
            #expect(video.values("fingerprint").count == 1)
            #expect(video.values("ssrc").count == 2)
        }

        @Test(arguments: [("sendrecv", "sendrecv"), ("sendonly", "recvonly"), ("recvonly", "sendonly"), ("inactive", "inactive")])
        func directions(theirs: String, ours: String) throws {
            let offer = SampleOffer.session + SampleOffer.video().replacing("a=sendrecv", with: "a=\(theirs)")
            let video = try #require(answer(offer).media.first)
            #expect(video.has(ours))
            #expect(video.values("ssrc").isEmpty == (ours == "recvonly" || ours == "inactive"))
        }

        @Test(arguments: [("actpass", "active"), ("active", "passive"), ("passive", "active")])
        func roles(theirs: String, ours: String) throws {
            let offer = SampleOffer.session + SampleOffer.video().replacing("setup:actpass", with: "setup:\(theirs)")
            #expect(try answer(offer).media.first?.value("setup") == ours)
        }

        @Test func withoutFeedbackOrRetransmission() throws {
            let offer = SampleOffer.session
                + SampleOffer.video(without: ["a=rtcp-fb", "a=extmap", "a=rtpmap:97", "a=fmtp:97"])
            let video = try #require(answer(offer).media.first)
            #expect(video.formats == ["96"])
            #expect(video.values("rtcp-fb").isEmpty && video.values("extmap").isEmpty)
            #expect(video.values("ssrc-group").isEmpty)
        }

        @Test func anAnswerIsReadByOurselves() throws {
            let sdp = try answer(SampleOffer.browser).text(sessionID: 1, version: 1)
            let remote = try RemoteDescription(parsing: sdp, isOffer: false) { _ in true }
            #expect(remote.video?.codec.codec == .vp8 && remote.video?.mediaIndex == 1)
        }

        /// Whole connections out of damaged offers: agents, RTP session and answer are made from what was let through.
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
