import DecartProtocol
import Testing

@Suite struct RTSPURLTests {
    @Test func userNameAndPasswordAreSplitOff() throws {
        let url = try RTSPURL("rtsp://us%40er:ca%3Anary@Camera.example:8554/front?key=canary")
        #expect(url.location.reveal() == "rtsp://Camera.example:8554/front?key=canary")
        #expect(url.credentials?.user.reveal() == "us@er" && url.credentials?.password.reveal() == "ca:nary")
        #expect((url.host, url.isSecure, url.usesUDP) == ("camera.example", false, false))
        #expect(!"\(url) \(String(reflecting: url))".contains("anary"))
        let text = url.redacting("DESCRIBE rtsp://us%40er:ca%3Anary@camera.example/front?key=canary: ca:nary")
        #expect(!text.contains("anary") && text.hasPrefix("DESCRIBE rtsp://"))
    }

    @Test func aSchemeChoosesTransportAndTLS() throws {
        let secure = try RTSPURL("RTSPS://camera.example/")
        #expect((secure.isSecure, secure.usesUDP, secure.credentials) == (true, false, nil))
        #expect(try RTSPURL("rtspu://camera.example").usesUDP && RTSPURL("rtspsu://camera.example").usesUDP)
        #expect(try !RTSPURL("rtspt://camera.example").usesUDP)
        #expect(RTSPURL.isRTSP("Rtsp://x") && !RTSPURL.isRTSP("rtspsrc location=rtsp://x") && !RTSPURL.isRTSP("rtsp:x"))
    }

    @Test(arguments: [
        "rtsp://", "rtsp://user:%zzcanary@camera.example/", "rtsp://:canary@camera.example/",
        "rtsp://camera.example:0/canary", "rtsp://camera.example/a canary", "http://canary.example/",
    ])
    func aWrongURLIsRefusedWithoutQuotingIt(text: String) {
        #expect {
            _ = try RTSPURL(text)
        } throws: { error in
            (error as? ProtocolError)?.code == .invalidOptions && !"\(error)".contains("canary")
        }
    }

    @Test(arguments: [
        ("rtspsrc location=rtsp://u:p@h/a@b ! decodebin", "rtspsrc location=rtsp://redacted@b ! decodebin"),
        ("rtspsrc user-id=u user-pw=\"p q\" ! x", "rtspsrc user-id=u user-pw=redacted ! x"),
        ("a location=\"rtsp://u:p q@h\" ! 'b c'", "a location=\"rtsp://redacted@h\" ! 'b c'"),
        ("videotestsrc pattern=ball ! video/x-raw,width=16", "videotestsrc pattern=ball ! video/x-raw,width=16"),
        ("", ""), ("\"", "\""),
    ])
    func aDescriptionIsShownWithoutPasswords(text: String, shown: String) {
        #expect(URLRedaction.withoutPasswords(text) == shown)
    }
}
