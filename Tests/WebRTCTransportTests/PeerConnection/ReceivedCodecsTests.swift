import GStreamerKit
import TestSupport
import Testing
import WebRTCTransport

extension Transport {
    /// An m-line on which we never send is answered with each codec that can be received, and the packets decide.
    @Suite(.timeLimit(.minutes(2)))
    struct ReceivedCodecsTests {
        private func configure(
            _ configuration: inout PeerConnectionConfiguration, _ receivable: Set<VideoCodec>? = [.vp8, .vp9, .h264]
        ) {
            (configuration.direction, configuration.acceptsDataChannels) = (.recvonly, true)
            (configuration.receivableCodecs, configuration.usableCodecs) = (receivable, receivable)
        }

        /// The video of the answers to these offers, one after the other.
        private func answers(
            _ offers: [String], _ receivable: Set<VideoCodec>? = [.vp8, .vp9, .h264]
        ) throws -> [SDPDescription] {
            try withConnection({ configure(&$0, receivable) }) { connection in
                try offers.map { try SDPDescription(parsing: connection.createAnswer(to: $0)) }
            }
        }

        private func video(_ video: String, _ receivable: Set<VideoCodec>? = [.vp8, .vp9, .h264]) throws -> SDPMedia {
            let sdp = try #require(
                answers([LiveKitOffer.session(bundle: [0, 1]) + LiveKitOffer.data + video], receivable).first)
            return try #require(sdp.media.last)
        }

        /// As libwebrtc and Chromium answer this offer, except AV1.
        @Test func toTheServersOffer() throws {
            let sdp = try #require(answers([LiveKitOffer.first]).first)
            #expect(sdp.has("extmap-allow-mixed") && sdp.values("group") == ["BUNDLE 0 1"])
            #expect(sdp.media.map(\.port) == [9, 9])
            #expect(sdp.media[0].value("max-message-size") == "65535" && sdp.media[0].value("sctp-port") == "5000")
            let video = sdp.media[1]
            #expect(video.formats == ["96", "97", "98", "99", "100", "101", "125", "126", "108", "109"])
            #expect(
                video.values("rtpmap") == [
                    "96 VP8/90000", "97 rtx/90000", "98 VP9/90000", "99 rtx/90000", "100 VP9/90000", "101 rtx/90000",
                    "125 H264/90000", "126 rtx/90000", "108 H264/90000", "109 rtx/90000",
                ])
            #expect(
                video.values("fmtp") == [
                    "97 apt=96", "98 profile-id=0", "99 apt=98", "100 profile-id=1", "101 apt=100",
                    "125 level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=42e01f", "126 apt=125",
                    "108 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f", "109 apt=108",
                ])
            for type in [96, 98, 100, 125, 108] {
                let feedback = video.values("rtcp-fb").filter { $0.hasPrefix("\(type) ") }
                #expect(Set(feedback) == Set(["goog-remb", "ccm fir", "nack", "nack pli"].map { "\(type) \($0)" }))
            }
            #expect(Set(video.values("extmap").map { $0.prefix(1) }) == ["1", "2", "3"])
            #expect(video.has("recvonly") && video.has("rtcp-mux") && video.has("rtcp-rsize"))
            #expect(video.values("ssrc").isEmpty && video.value("setup") == "active")
        }

        /// What was not offered is not answered.
        @Test func promisesFollowTheOffer() throws {
            let offer = LiveKitOffer.first.replacing("a=extmap-allow-mixed\r\n", with: "")
                .replacing("a=rtcp-rsize\r\n", with: "").replacing("a=max-message-size:65535\r\n", with: "")
                .replacing("a=rtcp-fb:98 nack\r\n", with: "")
            let sdp = try #require(answers([offer]).first)
            #expect(!sdp.has("extmap-allow-mixed") && !sdp.media[0].has("max-message-size"))
            #expect(!sdp.media[1].has("rtcp-rsize"))
            #expect(!sdp.media[1].values("rtcp-fb").contains("98 nack"))
            #expect(sdp.media[1].values("rtcp-fb").contains("96 nack"))
            // At each m-line instead of the session.
            let mixed = LiveKitOffer.first.replacing("a=extmap-allow-mixed\r\n", with: "")
                .replacing("a=rtcp-mux\r\n", with: "a=rtcp-mux\r\na=extmap-allow-mixed\r\n")
            #expect(try answers([mixed]).first?.has("extmap-allow-mixed") == true)
        }

        /// The order is the offer's, whatever is between the codecs.
        @Test(
            arguments: [
                (Array(LiveKitOffer.types.reversed()), ["108", "109", "125", "126", "100", "101", "98", "99", "96", "97"]),
                ([35, 36, 116, 117, 108, 109, 35, 96, 97], ["108", "109", "96", "97"]),
                ([96, 97, 96, 97, 125, 126, 96], ["96", "97", "125", "126"]),
                ([125, 126], ["125", "126"]), ([97, 96, 99, 98], ["96", "97", "98", "99"]), ([108], ["108", "109"]),
            ] as [([Int], [String])])
        func order(offered: [Int], answered: [String]) throws {
            let types = offered == [108] ? [109, 108] : offered
            #expect(try video(LiveKitOffer.video(types: types)).formats == answered)
        }

        @Test func damagedRetransmissionLeavesItsCodec() throws {
            let offer = LiveKitOffer.video().replacing("a=fmtp:97 apt=96", with: "a=fmtp:97 rtx-time=200")
                .replacing("a=fmtp:99 apt=98", with: "a=fmtp:99 apt=x")
                .replacing("a=rtpmap:101 rtx/90000\r\n", with: "").replacing("apt=125", with: "apt=777")
            #expect(try video(offer).formats == ["96", "98", "100", "125", "108", "109"])
        }

        /// Modes that no depayloader reads and profiles that no decoder does.
        @Test func unreadableFormats() throws {
            let offer = LiveKitOffer.video().replacing("packetization-mode=0;profile", with: "packetization-mode=2;profile")
                .replacing("profile-id=1", with: "profile-id=2").replacing("mode=1;profile-level-id=42e01f", with: "mode=1")
            #expect(try video(offer).formats == ["96", "97", "98", "99", "108", "109"])
            let profiles = LiveKitOffer.video(types: [125, 126, 108, 109])
                .replacing("mode=0;profile-level-id=42e01f", with: "mode=0;profile-level-id=f4001f")
                .replacing("mode=1;profile-level-id=42e01f", with: "mode=1;profile-level-id=64001f")
            #expect(try video(profiles).formats == ["108", "109"])
        }

        /// Encoded output takes what its caps allow.
        @Test func aPartOfTheCodecs() throws {
            #expect(try video(LiveKitOffer.video(), [.h264]).formats == ["125", "126", "108", "109"])
            #expect(try video(LiveKitOffer.video(), [.vp8, .h264]).formats == ["96", "97", "125", "126", "108", "109"])
            #expect(try video(LiveKitOffer.video(), nil).formats == ["96", "97"], "without the setting, the first one")
        }

        @Test func nothingInCommonNamesTheCodecs() {
            #expect {
                try video(LiveKitOffer.video(types: [35, 36, 116, 117]))
            } throws: {
                let error = $0 as? PeerConnectionError
                return error?.code == .rejected && error?.message.contains("AV1") ?? false
                    && error?.message.contains("H265") ?? false
            }
        }

        /// The m-line keeps all codecs without a track, for the next one that reuses it, and so does a further m-line.
        @Test func laterOffers() throws {
            let all = ["96", "97", "98", "99", "100", "101", "125", "126", "108", "109"]
            let (one, two) = (LiveKitOffer.session(bundle: [0, 1]), LiveKitOffer.session(bundle: [0, 1, 2]))
            let gone = LiveKitOffer.video(types: all.compactMap { Int($0) }, track: nil)
            let next = LiveKitOffer.video(types: all.compactMap { Int($0) }, track: "PA_a|TR_b TR_b", ssrc: (7, 8))
            let other = LiveKitOffer.video(mid: 2, types: [108, 109, 96, 97], track: "PA_a|TR_c TR_c", ssrc: (9, 10))
            let sdps = try answers([
                LiveKitOffer.first, one + LiveKitOffer.data + gone, one + LiveKitOffer.data + next,
                two + LiveKitOffer.data + gone + other, two + LiveKitOffer.data + next + other,
            ])
            #expect(sdps.map { $0.media[1].formats } == Array(repeating: all, count: 5))
            #expect(sdps.map { $0.media[1].has("recvonly") } == [true, false, true, false, true])
            #expect(sdps[3].media[2].formats == ["108", "109", "96", "97"] && sdps[3].media[2].has("recvonly"))
            #expect(sdps[4].media[2].port == 9 && sdps[4].media[2].has("inactive"))
        }

        /// A payload type has one meaning in the bundle.
        @Test func conflictingPayloadTypes() throws {
            let other = LiveKitOffer.video(mid: 2, types: [96, 97, 108, 109], track: "PA_a|TR_c TR_c", ssrc: (9, 10))
                .replacing("a=rtpmap:96 VP8", with: "a=rtpmap:96 H265").replacing("apt=96", with: "apt=108")
            let offer = LiveKitOffer.session(bundle: [0, 1, 2]) + LiveKitOffer.data + LiveKitOffer.video() + other
            let sdp = try #require(answers([LiveKitOffer.first, offer]).last)
            #expect(sdp.media[1].formats.count == 10 && sdp.media[2].port == 0)
        }

        /// Where we send too, the codec is one.
        @Test func anMLineThatSendsHasOneCodec() throws {
            try withConnection({
                configure(&$0)
                $0.direction = .sendrecv
            }) { connection in
                let sdp = try SDPDescription(parsing: connection.createAnswer(to: LiveKitOffer.first))
                #expect(sdp.media[1].formats == ["96", "97"] && sdp.media[1].has("sendrecv"))
                let other = LiveKitOffer.video(mid: 2, track: "PA_a|TR_c TR_c", ssrc: (9, 10))
                let later = try SDPDescription(
                    parsing: connection.createAnswer(
                        to: LiveKitOffer.session(bundle: [0, 1, 2]) + LiveKitOffer.data
                            + LiveKitOffer.video(types: [96, 97], track: nil) + other))
                #expect(later.media[1].formats == ["96", "97"])
                #expect(later.media[2].formats.count == 10 && later.media[2].has("recvonly"))
            }
        }
    }
}
