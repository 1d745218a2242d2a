import DecartProtocol
import TestSupport
import Testing

@Suite("URLs, keys and models", .timeLimit(.minutes(1)))
struct ServiceURLTests {
    static let accepted: [(base: String, host: String, port: Int, secure: Bool, target: String)] = [
        ("wss://api.decart.ai", "api.decart.ai", 443, true, "/v1/stream?model=m"),
        ("https://api.decart.ai/", "api.decart.ai", 443, true, "/v1/stream?model=m"),
        ("WSS://API.Decart.AI:8443", "api.decart.ai", 8443, true, "/v1/stream?model=m"),
        ("wss://a.example:443/v1/stream", "a.example", 443, true, "/v1/stream?model=m"),
        ("wss://a.example/proxy/", "a.example", 443, true, "/proxy/v1/stream?model=m"),
        ("wss://a.example/proxy//", "a.example", 443, true, "/proxy/v1/stream?model=m"),
        ("wss://a.example?fault=x", "a.example", 443, true, "/v1/stream?fault=x&model=m"),
        ("wss://a.example/p?fault=x&y", "a.example", 443, true, "/p/v1/stream?fault=x&y&model=m"),
        ("wss://a.example:", "a.example", 443, true, "/v1/stream?model=m"),
        ("ws://127.0.0.1:9001", "127.0.0.1", 9001, false, "/v1/stream?model=m"),
        ("http://localhost", "localhost", 80, false, "/v1/stream?model=m"),
        ("ws://[::1]:9001", "::1", 9001, false, "/v1/stream?model=m"),
        ("ws://127.3.4.5", "127.3.4.5", 80, false, "/v1/stream?model=m"),
        ("ws://[::ffff:127.0.0.1]", "::ffff:127.0.0.1", 80, false, "/v1/stream?model=m"),
        ("wss://[2001:db8::1]:1", "2001:db8::1", 1, true, "/v1/stream?model=m"),
        ("wss://under_score.example", "under_score.example", 443, true, "/v1/stream?model=m"),
        ("wss://a.example/%2e%20", "a.example", 443, true, "/%2e%20/v1/stream?model=m"),
    ]

    @Test(arguments: accepted.indices) func accepts(_ index: Int) throws {
        let row = ServiceURLTests.accepted[index]
        let url = try ServiceURL(base: row.base).stream(key: nil, model: try DecartModel(named: "m"))
        #expect(url.host == row.host && url.port == row.port && url.isSecure == row.secure)
        #expect(url.requestTarget == row.target)
    }

    static let refused: [String] = [
        "", "api.decart.ai", "ftp://a.example", "wss:a.example", "wss:/a.example", "://a", "wss://", "wss:///x",
        "wss://:80",
        "wss://a.example:0", "wss://a.example:65536", "wss://a.example:x", "wss://a.example:-1",
        "wss://a.example:80:80",
        "wss://user@a.example", "wss://user:hunter2@a.example", "wss://a.example/#x", "wss://a.example#",
        "wss://a.example/a b", "wss://a.example/\r\nX: y", "wss://a.example/\n", "wss://a.example\u{0}",
        "wss://a.exämple",
        " wss://a.example", "wss://a.example ", "wss://[::1", "wss://[::1]x", "wss://[x]", "wss://[127.0.0.1]",
        "wss://::1",
        "wss://a%2eexample", "wss://a.example/<x>", "wss://a.example/?x={y}", "wss://a.example\\b", "wss://a\tb",
        "wss://a.example?api_key=x", "wss://a.example?a=b&model=c", "wss://a.example?api_key", "wss://[fe80::1%25eth0]",
        "wss://" + String(repeating: "a", count: 254), "wss://a.example/" + String(repeating: "x", count: 3000),
        // Unencrypted, and not a loopback address.
        "ws://api.decart.ai", "http://192.168.1.2:80", "ws://localhost.example", "ws://[::2]", "ws://0.0.0.0",
        "ws://128.0.0.1",
        "ws://127.1", "ws://2130706433",
    ]

    @Test(arguments: refused) func refuses(_ base: String) {
        let error = thrown(ProtocolError.self) { try ServiceURL(base: base) }
        #expect(error?.code == .invalidBaseURL && error?.message.contains("hunter2") == false)
    }

    @Test func insecureIsForTheAsking() throws {
        let url = try ServiceURL(base: "ws://192.168.1.2:9001", allowInsecure: true)
        #expect(!url.isSecure && !url.isLoopback)
        // Other schemes remain forbidden.
        #expect(throws: ProtocolError.self) { try ServiceURL(base: "ftp://x", allowInsecure: true) }
    }

    @Test func everyQueryValueIsEncoded() throws {
        let key = try APIKey("k+&=#%/?é ü\u{7528}")
        let url = try ServiceURL(base: "wss://h.example").stream(
            key: key, model: try DecartModel(named: "a&b"), options: [("user_agent", "x/1 lang/swift"), ("a b", "")])
        #expect(
            url.requestTarget
                == "/v1/stream?api_key=k%2B%26%3D%23%25%2F%3F%C3%A9%20%C3%BC%E7%94%A8&model=a%26b"
                + "&user_agent=x%2F1%20lang%2Fswift&a%20b=")
        // A server decodes the original values.
        let items = PercentEncoding.queryItems(ofTarget: url.requestTarget)
        #expect(items.map(\.name) == ["api_key", "model", "user_agent", "a b"])
        #expect(items.map(\.value) == [key.reveal(), "a&b", "x/1 lang/swift", ""])
    }

    @Test func queryItemsOfOddTargets() {
        #expect(PercentEncoding.queryItems(ofTarget: "/").isEmpty)
        #expect(PercentEncoding.queryItems(ofTarget: "/?").isEmpty)
        #expect(
            PercentEncoding.queryItems(ofTarget: "/?a&b=%4&c=%zz&d=%ff&=e&&f=g=h").map { "\($0.name)>\($0.value)" } == [
                "a>", ">e", "f>g=h",
            ])
        #expect(PercentEncoding.decode("a+b%2B") == "a+b+")
    }

    @Test func subscribeURL() throws {
        let url = try ServiceURL(base: "wss://h.example").subscribe(
            key: try APIKey("key"), sid: "a/b", ip: "10.0.0.1", port: 80)
        #expect(url.requestTarget == "/subscribe/a%2Fb?IP=10.0.0.1&port=80&api_key=key")
    }

    @Test func nothingDescribesTheKey() throws {
        let key = try APIKey("  canary+1\n")
        #expect(key.reveal() == "canary+1")
        let url = try ServiceURL(base: "wss://h.example").stream(key: key, model: try DecartModel(named: "m"))
        var text =
            "\(key) \(url) \(String(reflecting: key)) \(String(reflecting: url)) \([url]) \(Optional(key) as Any)"
        dump(url, to: &text)
        dump(key, to: &text)
        #expect(!text.contains("canary"))
        #expect(url.description == "wss://h.example/v1/stream?<redacted>")
        #expect(url.redacting("no such key: canary+1, canary%2B1!") == "no such key: <redacted>, <redacted>!")
        let short = try ServiceURL(base: "wss://h.example").stream(
            key: try APIKey("x"), model: try DecartModel(named: "m"))
        #expect(short.redacting("xylophone") == "xylophone")
    }

    @Test(arguments: [
        "", " \n", "a\nb", "a\u{0}", "a\u{7F}b", String(repeating: "k", count: 5000), "DECART_API_KEY=dct_1",
        "export DECART_API_KEY=dct_1", "\"dct_1\"", "'dct_1'", "\u{201C}dct_1\u{201D}",
        "`dct_1`", "prompt=Noir", "base-url=ws://127.0.0.1",
    ])
    func badKeys(_ text: String) {
        #expect(throws: ProtocolError.self) { try APIKey(text) }
    }

    @Test(arguments: [
        "...", "x", "xxxx", "****", "…", "12345", "<your key>", "<key>", "{{API_KEY}}", "[key]", "$DECART_API_KEY",
        "YOUR_API_KEY",
        "your-api-key", "dct_your_key_here",
    ])
    func placeholdersAreNoKeys(_ text: String) throws {
        let key = try APIKey(text)
        for base in [ServiceURL.defaultBase, "wss://API.Decart.AI:8443/x"] {
            do {
                try ServiceURL(base: base).check(key)
                Issue.record("\(base) would be sent a placeholder")
            } catch {
                #expect(error.code == .invalidAPIKey && (text.count < 4 || !error.message.contains(text)))
            }
        }
        // Others decide on their keys themselves.
        for base in ["ws://127.0.0.1:9001", "wss://decart.ai.example"] {
            try ServiceURL(base: base).check(key)
        }
    }

    @Test(arguments: ["dct_a=b", "eyJh.eyJ_.c==", "ek_1", "dct-abc", "k\u{e9}y", "keykeykey", "a.b"])
    func keysAreNoPlaceholders(_ text: String) throws {
        try ServiceURL(base: ServiceURL.defaultBase).check(APIKey(text))
    }

    @Test(arguments: ["dct_a=b", "eyJh.eyJ_.c==", "\"", "=x", "KEY=", "k_\"a"])
    func unusualKeys(_ text: String) throws {
        #expect(try APIKey(text).reveal() == text)
    }

    @Test func roomsAreReachedByAPathAndAHeader() throws {
        let token = try APIKey("canary-token-of-a-room")
        for (base, target) in [
            ("wss://room.example", "/rtc?protocol=16"), ("https://room.example/", "/rtc?protocol=16"),
            ("wss://room.example/base", "/base/rtc?protocol=16"), ("wss://room.example/rtc", "/rtc?protocol=16"),
            ("ws://127.0.0.1:7880/a/?b=c", "/a/rtc?b=c&protocol=16"),
        ] {
            let url = try ServiceURL(room: base, token: token, options: [("protocol", "16")])
            #expect(url.requestTarget == target)
            #expect(url.bearer == token)
            var dumped = ""
            dump(url, to: &dumped)
            #expect(!"\(url) \(String(reflecting: url)) \(dumped)".contains("canary"))
            #expect(url.redacting("<canary-token-of-a-room>") == "<<redacted>>")
        }
        #expect(try ServiceURL(base: "wss://x.example").bearer == nil)
        for bad in ["ws://room.example", "", "room.example", "wss://user@room.example", "wss://room.example/#x"] {
            #expect(throws: ProtocolError.self) { try ServiceURL(room: bad, token: token) }
        }
        let clear = try ServiceURL(room: "ws://room.example", token: token, allowInsecure: true)
        #expect(!clear.isSecure)
    }

    @Test func models() throws {
        let standard = try DecartModel(named: DecartModel.defaultName)
        #expect(standard.format(for: .webrtc) == VideoFormat(width: 1280, height: 704, framerate: 22))
        #expect(standard.format(for: .livekit) == VideoFormat(width: 1280, height: 704, framerate: 30))
        #expect(
            standard.format(for: .webrtc, orientation: .portrait)
                == VideoFormat(width: 704, height: 1280, framerate: 22))
        #expect(!standard.supportsReferenceImage && standard.successor == nil)
        #expect(
            try DecartModel(named: "lucy-2.1").format(for: .webrtc)
                == VideoFormat(width: 1088, height: 624, framerate: 20))
        let custom = try DecartModel(named: "my-model")
        #expect(custom.format(for: .webrtc) == nil && custom.supportsReferenceImage)
        for name in ["", "a b", "a\n", "a\u{0}", "a\u{A0}b", String(repeating: "m", count: 129)] {
            #expect(throws: ProtocolError.self) { try DecartModel(named: name) }
        }
    }

    /// The realtime models of the JavaScript SDK 0.1.20, and of the Python SDK 0.2.4 (`models.py`) what that lacks, all at
    /// 30 frames per second: height, tiers of speed.
    static let current: [String: (height: Int, speeds: [String])] = [
        "lucy-2.1": (624, []), "lucy-vton-2": (624, []), "lucy-vton-3": (624, []),
        "lucy-2.5": (720, ["fast"]), "lucy-2.6": (720, ["fast"]), "lucy-restyle-2": (704, []),
        "lucy-latest": (624, ["fast"]), "lucy-vton-latest": (720, ["fast"]), "lucy-vton-3.5": (720, ["fast"]),
        "lucy-vton-3.6": (720, ["fast"]), "lucy-restyle-latest": (704, []),
    ]
    /// Models that it has removed, as the last SDK with rooms had them (Python 0.1.4; `mirage_v2`: 0.1.2; nil: none had).
    static let retired: [String: (Int, Int)?] = [
        "lucy-2.1-vton-2": (1088, 624), "mirage_v2": (1280, 704), "lucy_2_rt": nil, "lucy_v2v_14b_rt": nil,
    ]

    @Test func modelsAreThoseOfTheSDKs() throws {
        #expect(DecartModel.currentNames == Self.current.keys.sorted())
        for (name, (height, speeds)) in Self.current {
            let model = try DecartModel(named: name)
            let width = height == 624 ? 1088 : 1280
            #expect(model.format(for: .livekit) == VideoFormat(width: width, height: height, framerate: 30), "\(name)")
            #expect(model.supportsFastSpeed == speeds.contains("fast") && model.successor == nil, "\(name)")
        }
        for (name, size) in Self.retired {
            let model = try DecartModel(named: name)
            let format = try #require(model.format(for: .livekit))
            if let size { #expect((format.width, format.height) == size, "\(name)") }
            #expect(format.framerate == 30 && DecartModel.currentNames.contains(model.successor ?? ""), "\(name)")
        }
    }

    @Test func fullHDKeepsTheShape() {
        func fullHD(_ width: Int, _ height: Int) -> [Int] {
            let format = VideoFormat(width: width, height: height, framerate: 30).fullHD
            return [format.width, format.height, format.framerate]
        }
        // DecartAI/sdk#140: lucy-2.1, which had 1088x624, delivers 1884x1080.
        #expect(fullHD(1088, 624) == [1884, 1080, 30] && fullHD(624, 1088) == [1080, 1884, 30])
        #expect(fullHD(1280, 720) == [1920, 1080, 30] && fullHD(1280, 704) == [1964, 1080, 30])
    }

    @Test(arguments: ["https://host", "wss://host/", "wss://host/v1/stream"])
    func clientTokens(base: String) throws {
        let url = try ServiceURL(base: base).clientTokens(key: try APIKey("permanent-key"))
        #expect(url.requestTarget == "/v1/client/tokens" && url.port == 443)
        // The key goes into a header; the URL only knows it in order to redact it.
        #expect(url.redacting("permanent-key") == "<redacted>" && !"\(url)".contains("permanent"))
    }
}
