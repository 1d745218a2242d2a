import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Offers to receive, as a camera gets them.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct OfferTests {
        private static var receiving: PeerConnectionConfiguration {
            var configuration = PeerConnectionConfiguration()
            (configuration.codec, configuration.alternatives) = (.h264, [.h264, .vp8, .vp9])
            (configuration.direction, configuration.audio, configuration.h264) = (.recvonly, .recvonly, .any)
            return configuration
        }

        private func offer(_ configuration: PeerConnectionConfiguration) throws -> String {
            try withConnection({ $0 = configuration }) { try $0.createOffer() }
        }

        @Test func eachCodecIsOffered() throws {
            let sdp = try SDPDescription(parsing: offer(Self.receiving))
            #expect(sdp.media.map(\.kind) == ["video", "audio"])
            #expect(sdp.media.allSatisfy { $0.has("recvonly") && $0.values("ssrc").isEmpty })
            let video = try #require(sdp.media.first)
            #expect(video.formats == (96...105).map(String.init))
            #expect(
                video.values("rtpmap").filter { !$0.contains("rtx") } == [
                    "96 H264/90000", "98 H264/90000", "100 H264/90000", "102 VP8/90000", "104 VP9/90000",
                ])
            #expect(
                video.values("fmtp").compactMap { $0.split(separator: "=").last.map(String.init) } == [
                    "42e01f", "96", "4d001f", "98", "64001f", "100", "102", "0", "104",
                ])
        }

        @Test(arguments: [MediaDirection.recvonly, .sendrecv, .sendonly])
        func codecsOfAudioAreReceived(direction: MediaDirection) throws {
            var configuration = Self.receiving
            (configuration.audio, configuration.audioCodecs) = (direction, AudioCodec.allCases)
            let sdp = try SDPDescription(parsing: offer(configuration))
            let audio = try #require(sdp.media.last)
            #expect(audio.formats == (direction == .sendonly ? ["111", "63"] : ["111", "63", "0", "8"]))
            let all = ["111 opus/48000/2", "63 red/48000/2", "0 PCMU/8000", "8 PCMA/8000"]
            #expect(Set(audio.values("rtpmap")) == Set(direction == .sendonly ? Array(all[..<2]) : all))
            #expect(audio.values("fmtp").last == "63 111/111")
        }

        @Test func audioVideoAndDataComeInThisOrder() throws {
            var configuration = Self.receiving
            configuration.offersAudioVideoData = true
            let sdp = try SDPDescription(parsing: offer(configuration))
            #expect(sdp.media.map(\.kind) == ["audio", "video", "application"])
            #expect(sdp.values("group") == ["BUNDLE 0 1 2"])
        }

        @Test func candidatesGoToTheFirstLine() throws {
            let text = try offer(Self.receiving)
            let offer = try #require(OfferText(text))
            let candidate = "candidate:1 1 UDP 2130706431 192.0.2.1 5000 typ host"
            let complete = try SDPDescription(parsing: offer.with(candidates: [candidate], isComplete: true))
            #expect(complete.media.map { $0.values("candidate").count } == [1, 0])
            #expect(complete.media.map { $0.has("end-of-candidates") } == [true, false])
            let before = try SDPDescription(parsing: text)
            #expect(complete.media[1] == before.media[1] && complete.attributes == before.attributes)
            #expect(offer.with(candidates: [], isComplete: false) == text)
            let fragment = offer.fragment(candidates: [candidate], isComplete: false)
            let media = before.media[0]
            #expect(
                fragment.split(separator: "\r\n").map(String.init) == [
                    "a=ice-ufrag:\(media.value("ice-ufrag") ?? "")", "a=ice-pwd:\(media.value("ice-pwd") ?? "")",
                    "m=video 9 UDP/TLS/RTP/SAVPF 0", "a=mid:0", "a=\(candidate)",
                ])
            #expect(OfferText("") == nil && OfferText("v=0\r\n") == nil)
        }

        /// RFC 8858, RFC 9143: our offer has one transport for all m-lines and for RTCP.
        @Test(arguments: [("a=rtcp-mux\r\n", "rtcp-mux"), ("a=group:BUNDLE 0 1\r\n", "BUNDLE")])
        func anAnswerWithoutTheSharedTransportIsRefused(line: String, name: String) throws {
            var both = PeerConnectionConfiguration()
            (both.usableCodecs, both.audio) = ([.vp8], .sendrecv)
            let (a, b) = (try TestPeer(both), try TestPeer(both))
            defer { for peer in [a, b] { peer.stop() } }
            do {
                try join(a, b, mangleAnswer: { $0.replacing(line, with: "") })
                Issue.record("The answer is accepted.")
            } catch let error as PeerConnectionError {
                #expect(error.code == .badDescription && error.message.contains(name))
            }
        }

        /// A remote peer may answer with several codecs and send another one than the first.
        @Test(arguments: [true, false]) func videoMayArriveInAnotherCodec(isFirst: Bool) throws {
            let receiver = try TestPeer(Self.receiving)
            var sending = PeerConnectionConfiguration()
            (sending.usableCodecs, sending.direction) = ([.vp8], .sendonly)
            let sender = try TestPeer(sending)
            defer { for peer in [receiver, sender] { peer.stop() } }
            try join(
                receiver, sender,
                mangleAnswer: { answer in
                    answer.replacing("SAVPF 102 103", with: isFirst ? "SAVPF 102 103 96" : "SAVPF 96 102 103")
                        .replacing(
                            "a=rtpmap:102",
                            with: "a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;profile-level-id=42e01f\r\n"
                                + "a=rtpmap:102")
                })
            #expect(receiver.connection.negotiatedCodec == (isFirst ? .vp8 : .h264))
            receiver.pipeline.setState(.playing)
            try sender.startMedia()
            #expect(receiver.waitForConnected())
            let changed = receiver.seen.wait(.seconds(isFirst ? 1 : 40)) { $0.codecs == [.vp8] }
            #expect(changed == !isFirst)
        }
    }
}
