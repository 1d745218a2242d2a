import DecartProtocol
import Testing

@Suite struct HTTPURLTests {
    @Test func partsAreRead() throws {
        let url = try HTTPURL(whep: "https://Camera.example:8443/front/whep?token=canary")
        #expect((url.host, url.port, url.isSecure) == ("camera.example", 8443, true))
        #expect(url.requestTarget == "/front/whep?token=canary")
        #expect(url.hostHeader == "camera.example:8443")
        #expect(try HTTPURL(whep: "http://[::1]").hostHeader == "[::1]")
        #expect(try HTTPURL(whep: "http://camera.example").requestTarget == "/")
        #expect(!"\(url) \(String(reflecting: url))".contains("canary"))
    }

    @Test(arguments: [
        "", "https://", "ftp://camera.example/", "https://user:%zzcanary@camera.example/",
        "https://:canary@camera.example/",
        "https://us%3Aer:canary@camera.example/", "https://user:canary%0A@camera.example/",
        "https://camera.example/#canary",
        "https://camera.example/a b", "https://camera.example:99999/", "https://camera.example/\u{7f}",
        "https://camera.example/" + String(repeating: "a", count: 2048),
    ])
    func aWrongURLIsRefusedWithoutQuotingIt(text: String) {
        #expect {
            _ = try HTTPURL(whep: text)
        } throws: { error in
            (error as? ProtocolError)?.code == .invalidOptions && !"\(error)".contains("canary")
        }
    }

    @Test(arguments: [
        ("user:pass", "user:pass"), ("user", "user:"), ("us%40er:p%3Aa%2Fs%25s:w", "us@er:p:a/s%s:w"),
        ("u:a@b", "u:a@b"),
    ])
    func credentialsAreDecoded(text: String, decoded: String) throws {
        for url in [
            try HTTPURL(whep: "https://\(text)@camera.example/whep?x=a@b"),
            try HTTPURL(backend: "https://\(text)@camera.example/whep?x=a@b"),
        ] {
            let expected = "Basic " + Base64.encode(Array(decoded.utf8))
            #expect(url.credentials?.authorization.reveal() == expected)
            #expect((url.host, url.requestTarget) == ("camera.example", "/whep?x=a@b"))
            #expect(!"\(url) \(String(reflecting: url))".contains("user"))
            // The server chooses the place.
            #expect(url.resolving("/resource/1")?.credentials == nil)
        }
    }

    @Test func aServersTextHasNoSecretOfOurs() throws {
        let url = try HTTPURL(whep: "https://user:canary-password@camera.example/?key=canary-query")
        let text = url.redacting("no canary-password, CANARY-QUERY or canary-token", [Secret("canary-token")])
        #expect(text?.lowercased().contains("canary") == false && text?.hasPrefix("no ") == true)
        #expect(try HTTPURL(whep: "https://user:pw@camera.example/").redacting("user:pw", []) == nil)
        #expect(try HTTPURL(whep: "https://camera.example/?src=cam").redacting("no stream cam", []) == "no stream cam")
    }

    @Test func tokensArePutOnProtectedConnectionsOnly() throws {
        #expect(try HTTPURL(whep: "https://camera.example").protectsToken)
        #expect(try HTTPURL(whep: "http://127.0.0.1:8889/cam/whep").protectsToken)
        #expect(try !HTTPURL(whep: "http://camera.example").protectsToken)
    }

    @Test(arguments: [
        ("127.0.0.1", true), ("127.9.9.9", true), ("localhost", true), ("[::1]", true), ("[::]", true),
        ("0.0.0.0", true), ("169.254.169.254", true), ("[fe80::1]", true), ("[::ffff:127.0.0.1]", true),
        ("[::ffff:169.254.0.1]", true), ("192.168.0.1", false), ("169.253.0.1", false), ("[2001:db8::1]", false),
        ("[::ffff:192.168.0.1]", false), ("[fec0::1]", false), ("camera.example", false),
    ])
    func whatIsNearIsKnown(host: String, isLocal: Bool) throws {
        #expect(try HTTPURL(whep: "http://\(host)/whep").isLocal == isLocal)
    }

    @Test(arguments: [
        ("/resource/1", "/resource/1"), ("resource/1", "/live/cam/resource/1"), ("./1", "/live/cam/1"),
        ("../1", "/live/1"), ("../../../../1", "/1"), ("?id=1", "/live/cam/whep?id=1"),
        ("1?id=../2", "/live/cam/1?id=../2"),
        ("https://server.example/a/./b/../c", "/a/c"), ("//server.example/x", "/x"), ("..", "/live/"),
        ("https://server.example", "/"), ("1#part", "/live/cam/1"),
    ])
    func locationsAreResolved(location: String, target: String) throws {
        let resolved = try HTTPURL(whep: "https://server.example/live/cam/whep?key=1").resolving(location)
        #expect(resolved?.requestTarget == target)
        #expect(resolved?.host == "server.example")
    }

    @Test(arguments: [
        "", "#part", "http://server.example/", "ftp://server.example/", "https://", "https://user@server.example/",
        "javascript:1",
        "//", "https:/x", "a b", "/\r\nX: y", String(repeating: "a", count: 4096),
    ])
    func unusableLocationsAreRefused(location: String) throws {
        #expect(try HTTPURL(whep: "https://server.example/live/cam/whep").resolving(location) == nil)
    }

    @Test func originsAreCompared() throws {
        let url = try HTTPURL(whep: "https://server.example/live")
        #expect(url.hasOrigin(of: try HTTPURL(whep: "https://SERVER.example:443/other")))
        #expect(!url.hasOrigin(of: try HTTPURL(whep: "https://server.example:444/live")))
        #expect(!url.hasOrigin(of: try HTTPURL(whep: "http://server.example:443/live")))
    }
}
