import GStreamerKit
import RTP
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
                (
                    Array(LiveKitOffer.types.reversed()),
                    ["108", "109", "125", "126", "100", "101", "98", "99", "96", "97"]
                ),
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
            let offer = LiveKitOffer.video().replacing(
                "packetization-mode=0;profile", with: "packetization-mode=2;profile"
            )
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
            #expect(
                try video(LiveKitOffer.video(), [.vp8, .h264]).formats == ["96", "97", "125", "126", "108", "109"])
            #expect(try video(LiveKitOffer.video(), nil).formats == ["96", "97"], "without the setting, the first one")
        }

        /// H.265 where it can be decoded; what is interleaved or has more bits cannot.
        @Test func h265() throws {
            let all = Set(VideoCodec.allCases)
            #expect(try video(LiveKitOffer.video(), all).formats.suffix(2) == ["116", "117"])
            for parameters in ["profile-id=2", "sprop-max-don-diff=2"] {
                let offer = LiveKitOffer.video().replacing(
                    "a=rtpmap:116 H265/90000\r\n", with: "a=rtpmap:116 H265/90000\r\na=fmtp:116 \(parameters)\r\n")
                #expect(try !video(offer, all).formats.contains("116"))
            }
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

        // MARK: Packets

        /// A receiver that answered an offer of VP8, H.264 in both modes and VP9, and the sender of any packets.
        private func withReceiver(
            adding section: String? = nil, _ body: (_ sender: TestPeer, _ receiver: TestPeer) throws -> Void
        ) throws {
            var configuration = PeerConnectionConfiguration()
            configure(&configuration)
            let (a, b) = (try TestPeer(), try TestPeer(configuration))
            defer { TestPeer.stop(a, b) }
            try join(
                a, b,
                mangleAnswer: { answer in
                    // The sender offered one m-line only.
                    let starts = answer.ranges(of: "\r\nm=").map { answer.index(after: $0.lowerBound) }
                    return starts.count > 1 ? String(answer[..<starts[1]]) : answer
                },
                mangleOffer: { offer in
                    let lines = LiveKitOffer.video(mid: 0).split(separator: "\r\n" as Character)
                        .filter { $0.hasPrefix("a=rtpmap") || $0.hasPrefix("a=fmtp") || $0.hasPrefix("a=rtcp-fb") }
                        .map { $0 + "\r\n" }.joined()
                    let kept = offer.split(separator: "\r\n" as Character)
                        .filter { !$0.hasPrefix("a=rtpmap") && !$0.hasPrefix("a=fmtp") && !$0.hasPrefix("a=rtcp-fb") }
                        .map { $0 + "\r\n" }.joined()
                    let types = LiveKitOffer.types.map(String.init).joined(separator: " ")
                    return kept.replacing("SAVPF 96 97", with: "SAVPF \(types)") + lines + (section ?? "")
                })
            // It takes packets of any codec.
            let drain = try makeDrain()
            b.pipeline.add(drain)
            try b.connection.bin.staticPad("rtp_src")?.link(try #require(drain.staticPad("sink")))
            b.pipeline.setState(.playing)
            try #require(a.waitForConnected() && b.waitForConnected())
            try body(a, b)
        }

        private func rtp(_ type: Int, _ sequence: Int, ssrc: UInt32, _ payload: [UInt8]) -> [UInt8] {
            [0x80, 0x80 | UInt8(type)] + big(sequence, 2) + big(sequence * 3000, 4) + big(Int(ssrc), 4) + payload
        }

        private static let vp8Key: [UInt8] = [0x10, 0x10, 2, 0, 0x9d, 1, 0x2a, 64, 0, 48, 0, 1, 2]
        private static let vp8Delta: [UInt8] = [0x10, 0x11, 2, 0, 1, 2]
        /// STAP-A with a sequence parameter set first.
        private static let h264Key: [UInt8] = [0x18, 0, 2, 0x67, 0x42, 0, 2, 0x65, 0x88]
        private static let h264Delta: [UInt8] = [0x41, 0x9a, 0x24]

        /// The same stream goes on in another codec, another one begins in a third, and nothing of their keyframes is lost.
        @Test func thePacketsDecide() throws {
            try withReceiver { a, b in
                let types = Watched<[Int]>([])
                b.connection.bin.staticPad("rtp_src")?.addProbe(.buffer) { item in
                    if case .buffer(let packet) = item {
                        packet.withBytes { bytes in types.change { $0.append(Int(bytes[1] & 0x7f)) } }
                    }
                    return .pass
                }
                let ssrc = try #require(a.connection.sendParameters?.ssrc)
                let packets = [
                    (96, Self.vp8Key), (96, Self.vp8Delta), (108, Self.h264Delta), (108, Self.h264Key),
                    (108, Self.h264Delta), (96, Self.vp8Delta), (108, Self.h264Delta),
                ]
                for (index, packet) in packets.enumerated() {
                    a.connection.forge(rtp: rtp(packet.0, 100 + index, ssrc: ssrc, packet.1))
                    letTheNetworkThreadRun()
                }
                // A packet of another codec that begins nothing is a stray one.
                #expect(types.wait(.seconds(20)) { $0 == [96, 96, 108, 108, 108] }, "\(types.value)")
                #expect(b.seen.wait(.seconds(20)) { $0.codecs == [.h264] }, "\(b.seen.value.codecs)")
            }
        }

        /// A server sends tracks of rejected m-lines too. Nothing of them is shown, requested, or counted as media.
        @Test func aRejectedTrackIsNotShown() throws {
            let other = LiveKitOffer.video(mid: 7, track: "PA_a|TR_other TR_other", ssrc: (0x4444, 0x4445))
            try withReceiver(adding: other) { a, b in
                let sources = Watched<Set<UInt32>>([])
                b.connection.bin.staticPad("rtp_src")?.addProbe(.buffer) { item in
                    if case .buffer(let packet) = item {
                        packet.withBytes { bytes in
                            let ssrc = (8..<12).reduce(UInt32(0)) { $0 << 8 | UInt32(bytes[$1]) }
                            sources.change { $0.insert(ssrc) }
                        }
                    }
                    return .pass
                }
                let ssrc = try #require(a.connection.sendParameters?.ssrc)
                func send(_ type: Int, _ sequence: Int, _ source: UInt32, _ payload: [UInt8]) {
                    a.connection.forge(rtp: rtp(type, sequence, ssrc: source, payload))
                    letTheNetworkThreadRun()
                }
                send(96, 1, ssrc, Self.vp8Key)
                #expect(sources.wait(.seconds(20)) { $0 == [ssrc] })
                let before = b.connection.statistics()
                // With gaps, in another codec, and of a stream that no m-line names.
                for sequence in stride(from: 10, to: 40, by: 3) {
                    send(96, sequence, 0x4444, Self.vp8Key)
                    send(108, sequence + 1, 0x4444, Self.h264Key)
                    send(97, sequence, 0x4445, [0, 9] + Self.vp8Key)
                    send(96, sequence, 0x5555, Self.vp8Key)
                }
                send(96, 2, ssrc, Self.vp8Delta)
                #expect(
                    eventually(seconds: 20) { b.connection.statistics().packetsReceived > before.packetsReceived })
                let after = b.connection.statistics()
                #expect(after.packetsReceived == before.packetsReceived + 1)
                #expect(after.packetsRefused == before.packetsRefused + 40)
                #expect(after.rtp.plisSent == before.rtp.plisSent && after.rtp.nacksSent == before.rtp.nacksSent)
                #expect(sources.value == [ssrc] && b.seen.value.codecs.isEmpty)
            }
        }
    }
}
