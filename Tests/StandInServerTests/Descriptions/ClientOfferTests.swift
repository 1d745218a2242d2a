import GStreamerKit
import StandInServer
import Testing

/// The answers of a room to offers of its participants.
struct ClientOfferTests {
    private static let video = """
        m=video 9 UDP/TLS/RTP/SAVPF 96 97 103 109 114 115 45 46 98 99
        c=IN IP4 0.0.0.0
        a=mid:7
        a=extmap:3 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01
        a=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid
        a=extmap:10 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id
        a=extmap:13 urn:3gpp:video-orientation
        a=sendonly
        a=msid:- camera
        a=rtcp-mux
        a=rtpmap:96 VP8/90000
        a=rtcp-fb:96 goog-remb
        a=rtcp-fb:96 transport-cc
        a=rtcp-fb:96 nack pli
        a=rtcp-fb:96 x-unknown
        a=rtpmap:97 rtx/90000
        a=fmtp:97 apt=96
        a=rtpmap:103 H264/90000
        a=fmtp:103 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f
        a=rtpmap:109 H264/90000
        a=fmtp:109 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f
        a=rtpmap:114 rtx/90000
        a=fmtp:114 apt=109
        a=rtpmap:115 H264/90000
        a=fmtp:115 level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=42e01f
        a=rtpmap:45 AV1/90000
        a=rtpmap:46 rtx/90000
        a=fmtp:46 apt=45
        a=rtpmap:98 VP9/90000
        a=fmtp:98 profile-id=2
        a=rtpmap:99 rtx/90000
        a=fmtp:99 apt=98

        """
    private static let audio = """
        m=audio 9 UDP/TLS/RTP/SAVPF 63 111 9 0 8 13
        c=IN IP4 0.0.0.0
        a=mid:1
        a=sendonly
        a=msid:- microphone
        a=rtcp-mux
        a=rtpmap:63 red/48000/2
        a=fmtp:63 111/111
        a=rtpmap:111 opus/48000/2
        a=fmtp:111 minptime=10;useinbandfec=1
        a=rtpmap:9 G722/8000

        """

    private static func offer(_ media: String...) -> String {
        "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\nt=0 0\n" + media.joined()
    }

    /// The answer, whose peer connection accepts each m-line.
    private static func answer(_ offer: ClientOffer) throws -> SDPDescription {
        GStreamerRuntime.initialise()
        var own = try SDPDescription(parsing: offer.normalised)
        own.attributes += [SDPAttribute("ice-ufrag", "user"), SDPAttribute("ice-pwd", "secret")]
        for index in own.media.indices { own.media[index].attributes.removeAll { $0.name == "msid" } }
        return offer.answer(own: own)
    }

    private static func codecs(_ announced: String, allowed: Set<String>? = nil) -> PublishedCodecs {
        var codecs = PublishedCodecs()
        (codecs.announced, codecs.allowed) = (["camera": announced], allowed)
        return codecs
    }

    @Test func theAnnouncedCodecComesFirstAndTheOthersStay() throws {
        GStreamerRuntime.initialise()
        let offer = try ClientOffer(parsing: Self.offer(Self.video), Self.codecs("h264"), isSingle: false)
        #expect(try SDPDescription(parsing: offer.normalised).media[0].formats.first == "109")
        let line = try Self.answer(offer).media[0]
        // Neither another profile nor VP9 of profile 2.
        #expect(line.formats == ["109", "115", "96", "45", "114", "97", "46"])
        #expect(line.has("recvonly") && line.has("rtcp-rsize"))
        #expect(line.values("rtcp-fb").filter { $0.hasPrefix("96 ") } == ["96 transport-cc", "96 nack pli"])
        #expect(line.values("extmap").map { $0.prefix(2) } == ["3 ", "4 "])
        let vp8 = try ClientOffer(parsing: Self.offer(Self.video), Self.codecs("vp8"), isSingle: false)
        #expect(try Self.answer(vp8).media[0].formats.first == "96")
    }

    @Test func aCodecThatTheRoomDoesNotAllowIsLeftOut() throws {
        let one = try ClientOffer(
            parsing: Self.offer(Self.video), Self.codecs("vp8", allowed: ["h264"]), isSingle: false)
        #expect(try Self.answer(one).media[0].formats == ["109", "115", "114"])
        let none = try ClientOffer(
            parsing: Self.offer(Self.video), Self.codecs("h264", allowed: ["vp9"]), isSingle: false)
        let answer = try Self.answer(none)
        #expect(answer.media == [SDPMedia(kind: "video", port: 0, transport: "UDP/TLS/RTP/SAVPF", formats: ["0"])])
        #expect(!answer.has("group"))
    }

    @Test(
        arguments: [
            ("q;h;f", "", "send f;h;q"), ("f;h;q", "", "send f;h;q"), ("q;f", "", "send f;q"),
            (
                "1;2", "a=rid:1 send max-width=320;max-height=180\na=rid:2 send max-width=640;max-height=360\n",
                "send 2;1"
            ),
            ("a;b", "", "send a;b"),
        ])
    func theFullSizeLayerIsChosen(written: String, rids: String, expected: String) throws {
        GStreamerRuntime.initialise()
        let text = Self.offer(Self.video + rids + "a=simulcast:send \(written)\n")
        let offer = try ClientOffer(parsing: text, Self.codecs("h264"), isSingle: false)
        #expect(try SDPDescription(parsing: offer.normalised).media[0].value("simulcast") == expected)
        // The client reads its own order.
        let line = try Self.answer(offer).media[0]
        #expect(line.value("simulcast") == "recv \(written)")
        #expect(line.values("rid") == written.split(separator: ";").map { "\($0) recv" })
        #expect(line.values("extmap").count == 3)
    }

    @Test func theAnnouncedLayersTellTheSizesOfOtherNames() throws {
        GStreamerRuntime.initialise()
        var codecs = Self.codecs("h264")
        codecs.layers["camera"] = ["b", "a"]
        let offer = try ClientOffer(
            parsing: Self.offer(Self.video + "a=simulcast:send a;b\n"), codecs, isSingle: false)
        #expect(try SDPDescription(parsing: offer.normalised).media[0].value("simulcast") == "send b;a")
    }

    @Test func redundantAudioStaysInTheAnswer() throws {
        GStreamerRuntime.initialise()
        let offer = try ClientOffer(parsing: Self.offer(Self.audio), PublishedCodecs(), isSingle: false)
        let line = try Self.answer(offer).media[0]
        #expect(line.formats == ["63", "111", "0", "8"] && line.has("rtcp-rsize"))
        #expect(line.values("fmtp") == ["63 111/111", "111 minptime=10;useinbandfec=1;usedtx=1"])
    }

    /// Behind Opus, RED stays a format of the m-line that the client does not send.
    @Test func aTrackWithoutRedundancyIsSentAsOpus() throws {
        GStreamerRuntime.initialise()
        for (cid, formats) in [
            ("microphone", ["111", "63", "0", "8"]), ("another", ["63", "111", "0", "8"]),
        ] {
            var codecs = PublishedCodecs()
            codecs.withoutRedundancy = [cid]
            let audio = Self.audio.replacing("SAVPF 63 111", with: "SAVPF 111 63")
            let offer = try ClientOffer(parsing: Self.offer(audio), codecs, isSingle: false)
            #expect(try Self.answer(offer).media[0].formats == formats)
            #expect(offer.published["microphone"]?.codec == (cid == "microphone" ? "opus" : "red"))
        }
    }
}
