import DecartProtocol
import Testing

@Suite struct RTSPRedirectsTests {
    private static func following(_ url: String) throws -> RTSPRedirects {
        RTSPRedirects(try RTSPURL(url.withCredentials()))
    }

    /// Where the camera leads, and what may go there: true with the credentials, false without them, nil nothing at all.
    @Test(
        arguments: [
            ("rtsp://camera.example/a", "rtsp://camera.example/b", true),
            ("rtsp://camera.example/a", "rtsp://CAMERA.example:554/b?c=d", true),
            ("rtsps://camera.example/a", "rtsps://camera.example:554/b", true),
            ("rtsp://camera.example/a", "rtsp://camera.example:8554/a", false),
            ("rtsp://camera.example/a", "rtsps://camera.example/a", false),
            ("rtsp://camera.example/a", "rtsp://other.example/a", false),
            ("rtsp://camera.example/a", "rtsp://own:word@other.example/a", false),
            ("rtsps://camera.example/a", "rtsp://camera.example/a", nil),
            ("rtsp://camera.example/a", "rtsp://127.0.0.1/a", nil),
            ("rtsp://camera.example/a", "rtsp://localhost/a", nil),
            ("rtsp://camera.example/a", "rtsp://[fe80::1]/a", nil),
            ("rtsp://127.0.0.1/a", "rtsp://127.0.0.1:8554/a", false),
            ("rtsp://127.0.0.1/a", "rtsp://localhost/a", false),
            ("rtsp://camera.example/a", "http://camera.example/a", nil),
            ("rtsp://camera.example/a", "rtsp-sdp://v=0", nil),
            ("rtsp://camera.example/a", "rtsp://camera.example/a b", nil),
            ("rtsp://camera.example/a", "", nil),
        ] as [(String, String, Bool?)])
    func theCredentialsStayAtTheirOrigin(url: String, location: String, withCredentials: Bool?) throws {
        var redirects = try Self.following(url)
        #expect(redirects.request(at: url) == .allowed(withCredentials: true))
        let verdict = redirects.request(at: location)
        if let withCredentials {
            #expect(verdict == .allowed(withCredentials: withCredentials))
            #expect((redirects.otherHost == nil) == withCredentials && redirects.refusal == nil)
        } else {
            #expect(verdict == redirects.refusal.map(RTSPRedirects.Verdict.refused))
            #expect(redirects.refusal?.hasPrefix("it redirects to") == true)
            #expect(redirects.request(at: url) == verdict, "nothing more leaves")
        }
    }

    @Test func theyGoBackToTheirOrigin() throws {
        var redirects = try Self.following("rtsp://camera.example/a")
        #expect(redirects.request(at: "rtsp://other.example/a") == .allowed(withCredentials: false))
        #expect(redirects.otherHost == "other.example")
        #expect(redirects.request(at: "rtsp://camera.example/b") == .allowed(withCredentials: true))
        #expect(redirects.otherHost == nil)
    }

    @Test func encryptionThatBeganStays() throws {
        var redirects = try Self.following("rtsp://camera.example/a")
        #expect(redirects.request(at: "rtsps://camera.example/a") == .allowed(withCredentials: false))
        _ = redirects.request(at: "rtsp://camera.example/a")
        #expect(redirects.refusal == "it redirects to an unusable address")
    }

    @Test func threeRedirectsAreFollowed() throws {
        var redirects = try Self.following("rtsp://camera.example/0")
        for number in 1...4 {
            let verdict = redirects.request(at: "rtsp://camera.example/\(number)")
            #expect((verdict == .allowed(withCredentials: true)) == (number <= 3))
        }
        #expect(redirects.refusal == "it redirects too often")
    }

    /// A camera that redirects to itself or to something that is no URL, which the client does not follow.
    @Test func aCircleEnds() throws {
        let url = "rtsp://camera.example/a"
        var redirects = try Self.following(url)
        var count = 0
        while redirects.request(at: url) == .allowed(withCredentials: true), count < 100 { count += 1 }
        #expect(count == 32 && redirects.refusal == "it redirects too often")
        // The requests of a stream are not counted.
        var playing = try Self.following(url)
        playing.described(at: url)
        for _ in 0..<100 { #expect(playing.request(at: url) == .allowed(withCredentials: true)) }
    }

    /// A description may name another URL for the control of its streams, which is no redirect.
    @Test func theURLOfTheDescription() throws {
        let control = "rtsp://10.0.0.7/a/"
        var redirects = try Self.following("rtsp://camera.example/a")
        redirects.described(at: control)
        #expect(redirects.request(at: control) == .allowed(withCredentials: true))
        #expect(redirects.request(at: "rtsp://other.example/a") != .allowed(withCredentials: false))
        #expect(redirects.refusal == "it redirects while it plays, which is not followed")
    }
}

extension String {
    /// The URL with a user name and a password.
    fileprivate func withCredentials() -> String {
        guard let start = firstRange(of: "://")?.upperBound else { return self }
        return self[..<start] + "user:word@" + self[start...]
    }
}
