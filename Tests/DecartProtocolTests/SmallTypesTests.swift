import DecartProtocol
import Testing

@Suite("Small types", .timeLimit(.minutes(1)))
struct SmallTypesTests {
    @Test func candidatesOnTheirOwn() throws {
        let candidate = CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)
        let text = #"{"candidate":"candidate:1","sdpMLineIndex":0,"sdpMid":"0"}"#
        #expect(String(decoding: try candidate.encodedInit(), as: UTF8.self) == text)
        #expect(try CandidateMessage(decodingInit: [UInt8](text.utf8)) == candidate)
        let more = #"{"candidate":"c","sdpMid":null,"usernameFragment":"x"}"#
        let read = try CandidateMessage(decodingInit: [UInt8](more.utf8))
        #expect(read == CandidateMessage(candidate: "c", usernameFragment: "x"))
        for bad in ["", "[]", "{}", #"{"candidate":1}"#, #"{"candidate":"\#(String(repeating: "x", count: 9000))"}"#] {
            #expect(throws: ProtocolError.self) { try CandidateMessage(decodingInit: [UInt8](bad.utf8)) }
        }
    }

    @Test(arguments: [
        "401", "HTTP 401", "Error: 403.", "status=403", "UNAUTHORIZED", "Permission  denied", "permission_denied",
        "not allowed here", "Invalid API key", "INVALID_API_KEY", "invalid-session", "Session expired!", "(401)",
        "é 401", "401é is not a word but 403 is",
    ])
    func permanent(_ text: String) {
        #expect(PermanentErrorText.matches(text))
    }

    @Test(arguments: [
        "", "frame 14012", "4010", "1401", "id 9f401c", "took 0.401 s", "1,403 frames", "unauthorizedly",
        "permission to be denied",
        "allowed not", "session has expired", "api key", "invalid", "HTTP401", "401px", "not  all owed",
        "temporarily unavailable", "\u{0}",
    ])
    func transient(_ text: String) {
        #expect(!PermanentErrorText.matches(text))
    }

    @Test func keyWords() {
        #expect(PermanentErrorText.concernsKey("invalid api key"))
        #expect(PermanentErrorText.concernsKey("HTTP 401"))
        #expect(!PermanentErrorText.concernsKey("session expired"))
    }

    @Test func serviceStatus() {
        #expect(ServiceStatus(statusText: "Server is READY to go") == .ready)
        #expect(ServiceStatus(statusText: "Entering Queue") == .enteringQueue)
        #expect(ServiceStatus(statusText: "warming up") == .unknown)
        #expect(ServiceStatus(statusText: "") == .unknown)
    }

    @Test func sessionStates() {
        #expect(SessionState.allCases.filter(\.isConnected) == [.connected, .generating])
        #expect(SessionState.allCases.filter(\.isInSession) == [.connecting, .connected, .generating, .reconnecting])
        #expect(DecartErrorCode.allCases.count == 15)
    }

    @Test func prompts() throws {
        #expect(try Prompt("  x \n").text == "x")
        #expect(try Prompt("").isEmpty)
        #expect(try Prompt(String(repeating: "👨‍👩‍👧‍👦", count: 1001)).length == 1001)
        #expect(try Prompt(String(repeating: "é", count: 32 << 10) + " ").text.utf8.count == 64 << 10)
        #expect(throws: ProtocolError.self) { try Prompt(String(repeating: "a", count: (64 << 10) + 1)) }
        #expect(throws: ProtocolError.self) { try Prompt("a" + String(repeating: "\u{301}", count: 100_000)) }
        #expect(throws: ProtocolError.self) { try Prompt("a\u{0}b") }
    }

    @Test func base64() throws {
        // RFC 4648 10.
        for (text, encoded) in [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            #expect(Base64.encode([UInt8](text.utf8)) == encoded)
            #expect(Base64.decode(encoded) == [UInt8](text.utf8))
            #expect(Base64.decode(encoded.filter { $0 != "=" }) == [UInt8](text.utf8))
        }
        #expect(Base64.encode([0xFB, 0xFF], alphabet: .url) == "-_8")
        #expect(Base64.decode("-_8", alphabet: .url) == [0xFB, 0xFF])
        for bad in ["A", "AAAAA", "AA=A", "A===", "====", "A-A=", "AAA\n", "é", "AA==="] {
            #expect(Base64.decode(bad) == nil, "\(bad)")
        }
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Base64.decode(Base64.encode(bytes, alphabet: .url), alphabet: .url) == bytes)
        }
    }

    /// Viewers of the service's own SDKs remove the trailers of frames only if the token says that there are some.
    @Test func subscribeTokensOfRoomsWithFrameTiming() throws {
        let token = SubscribeToken.room(name: "r", frameTiming: true)
        let text = #"{"frame_timing":true,"room_name":"r"}"#
        let encoded = try token.encoded()
        #expect(encoded == Base64.encode([UInt8](text.utf8)))
        #expect(try SubscribeToken(token.encoded()) == token)
        let plain = Base64.encode([UInt8](#"{"room_name":"r","frame_timing":"yes"}"#.utf8), alphabet: .url)
        #expect(try SubscribeToken(plain) == .room(name: "r"))
        #expect(SessionIdentity(id: "s", roomName: "r", hasFrameTiming: true).subscribeToken == token)
    }

    /// Only a JSON Web Token says when it expires; nothing in a token can trap.
    @Test(
        arguments: [
            (#"{"exp":1000}"#, 1006, 6), (#"{"exp":1000}"#, 1005, nil), (#"{"exp":1000}"#, 10, nil),
            (#"{"exp":1000.5}"#, 2000, 999), (#"{"exp":-1e300}"#, 5, 1_000_000_000_000), (#"{"exp":1e300}"#, 5, nil),
            (#"{"exp":"1"}"#, 5000, nil), (#"{"exp":null}"#, 5000, nil), (#"{}"#, 5000, nil), (#"[1]"#, 5000, nil),
        ] as [(String, Double, Int?)])
    func expiryOfTokens(claims: String, now: Double, age: Int?) throws {
        let token = "e30." + Base64.encode([UInt8](claims.utf8), alphabet: .url) + ".sig"
        #expect(try APIKey(token).secondsSinceExpiry(now: now) == age)
        #expect(try APIKey("ek_" + token).secondsSinceExpiry(now: now) == age)
        #expect(try APIKey("ek_canary").secondsSinceExpiry(now: now) == nil)
    }

    @Test func subscribeTokens() throws {
        let direct = SubscribeToken.direct(sid: "s", ip: "1.2.3.4", port: 80)
        #expect(
            try direct.encoded()
                == Base64.encode([UInt8](#"{"ip":"1.2.3.4","port":80,"sid":"s"}"#.utf8), alphabet: .standard))
        #expect(try SubscribeToken(direct.encoded()) == direct)
        let room = SubscribeToken.room(name: "r")
        #expect(try SubscribeToken(room.encoded()) == room)
        #expect(SessionIdentity(id: "s", serverIP: "1.2.3.4", serverPort: 80).subscribeToken == direct)
        #expect(SessionIdentity(id: "s", serverIP: "1.2.3.4").subscribeToken == nil)
        for bad in [
            "", "!", "e30", "bnVsbA", String(repeating: "A", count: 9000),
            Base64.encode([UInt8](#"{"sid":"s","ip":"x","port":0}"#.utf8), alphabet: .url),
        ] {
            #expect(throws: ProtocolError.self) { try SubscribeToken(bad) }
        }
    }

    @Test func subscribeTokensDoNotPrint() throws {
        let token = SubscribeToken.direct(sid: "canary", ip: "1.2.3.4", port: 80)
        var dumped = ""
        dump(token, to: &dumped)
        #expect(!("\(token)" + String(reflecting: token) + dumped).contains("canary"))
        for name in [".", ".."] {
            #expect(throws: ProtocolError.self) { try SubscribeToken(SubscribeToken.room(name: name).encoded()) }
        }
        #expect(token.transport == .webrtc && SubscribeToken.room(name: "r").transport == .livekit)
    }

    // MARK: Session limit in a token

    private func jwt(_ payload: String) -> String {
        let part = { Base64.encode([UInt8](($0 as String).utf8), alphabet: .url) }
        return part(#"{"alg":"EdDSA"}"#) + "." + part(payload) + "." + part("signature")
    }

    @Test(arguments: [
        (#"{"constraints":{"realtime":{"maxSessionDuration":300}},"exp":1}"#, 300),
        (#"{"constraints":{"realtime":{"maxSessionDuration":"120"}}}"#, 120),
        (#"{"constraints":{"realtime":{"maxSessionDuration":1e300}}}"#, nil),
        (#"{"constraints":{"realtime":{"maxSessionDuration":9223372036854775807}}}"#, 1_000_000_000),
        (#"{"constraints":{"realtime":{"maxSessionDuration":0}}}"#, nil),
        (#"{"constraints":{"realtime":{"maxSessionDuration":-5}}}"#, nil),
        (#"{"constraints":{"realtime":[]}}"#, nil), (#"{"constraints":null}"#, nil), (#"{"exp":1}"#, nil), ("[]", nil),
        ("", nil),
    ])
    func sessionLimits(payload: String, seconds: Int?) throws {
        let limit = seconds.map { Duration.seconds($0) }
        #expect(try APIKey(jwt(payload)).sessionLimit == limit)
        let answer = #"{"apiKey":"ek_1","token":"\#(jwt(payload))","expiresAt":"x"}"#
        #expect(try ClientToken(decoding: [UInt8](answer.utf8)).sessionLimit == limit)
        if payload.hasPrefix("{") {
            let beside = #"{"apiKey":"ek_1","# + payload.dropFirst()
            #expect(try ClientToken(decoding: [UInt8](beside.utf8)).sessionLimit == limit)
        }
    }

    /// `apiKey` comes first: the documentation of client tokens names it.
    @Test func aTokenIsAKeyToo() throws {
        let token = jwt(#"{"constraints":{"realtime":{"maxSessionDuration":300}}}"#)
        let only = try ClientToken(decoding: [UInt8](#"{"token":"\#(token)","expiresAt":"x"}"#.utf8))
        #expect(only.key.reveal() == token && only.sessionLimit == .seconds(300))
        let both = try ClientToken(decoding: [UInt8](#"{"token":"\#(token)","apiKey":"ek_1"}"#.utf8))
        #expect(both.key.reveal() == "ek_1")
        #expect(throws: ProtocolError.self) { try ClientToken(decoding: [UInt8](#"{"token":7}"#.utf8)) }
    }

    /// `RealtimeQuotaResponse` of the service's OpenAPI file: each number may be null.
    @Test(arguments: [
        (#"{"limit":2,"active":1,"remaining":1}"#, false), (#"{"limit":2,"active":2,"remaining":0}"#, true),
        (#"{"limit":2,"active":3,"remaining":-1}"#, true), (#"{"limit":null,"active":null,"remaining":null}"#, false),
        (#"{"limit":2,"active":2,"remaining":null}"#, true), (#"{"limit":2}"#, false),
    ])
    func quotas(text: String, isUsedUp: Bool) throws {
        #expect(try RealtimeQuota(decoding: [UInt8](text.utf8)).isUsedUp == isUsedUp)
    }

    @Test(arguments: ["", "[]", "{}", #"{"detail":"Not Found"}"#]) func whatIsNoQuota(text: String) {
        #expect(throws: ProtocolError.self) { try RealtimeQuota(decoding: [UInt8](text.utf8)) }
    }

    /// FastAPI's `HTTPException` and `HTTPValidationError` of the service's OpenAPI file; the token endpoint has `error`.
    @Test(
        arguments: [
            (#"{"detail":"Invalid API key"}"#, "Invalid API key", nil),
            (#"{"error":"Invalid or expired API key"}"#, "Invalid or expired API key", nil),
            (
                #"{"detail":[{"type":"missing","loc":["query","model"],"msg":"Field required"},{"loc":[1],"msg":"b"},"x"]}"#,
                "query.model: Field required; b", nil
            ),
            (#"{"detail":{"message":"No","error_type":"invalid_model"}}"#, "No", "invalid_model"),
            (#"{"error":"No","error_type":"removed_model"}"#, "No", "removed_model"),
            (#"{"type":"about:blank","title":"No stream","status":404}"#, "No stream", nil),
            (#"{"title":"No","detail":"The camera is away"}"#, "The camera is away", nil),
        ] as [(String, String, String?)])
    func refusalBodies(text: String, expected: String, type: String?) throws {
        let body = try #require(RefusalBody(decoding: [UInt8](text.utf8)))
        #expect(body.text == expected && body.type == type)
    }

    @Test(arguments: ["", "no", "[]", "{}", #"{"detail":[]}"#, #"{"detail":7}"#, #"{"detail":""}"#])
    func otherBodies(text: String) {
        #expect(RefusalBody(decoding: [UInt8](text.utf8)) == nil, "\(text)")
    }

    @Test func sentences() {
        #expect(["", "a", "a.", "a!", "…"].map(\.asSentence) == ["", "a.", "a.", "a!", "…."])
    }

    /// Parsing a random key is safe and mostly finds no limit.
    @Test func keysOfAnyShapeAreRead() throws {
        var random = SystemRandomNumberGenerator()
        let good = Array(jwt(#"{"constraints":{"realtime":{"maxSessionDuration":300}}}"#).utf8)
        var reported = 0
        for _ in 0..<5000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                switch Int.random(in: 0...3, using: &random) {
                case 0 where bytes.count > 1: bytes.remove(at: Int.random(in: 0..<bytes.count, using: &random))
                case 1:
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 33...126, using: &random)
                case 2: bytes.insert(UInt8(ascii: "."), at: Int.random(in: 0...bytes.count, using: &random))
                default: bytes = Array(bytes.prefix(Int.random(in: 1...bytes.count, using: &random)))
                }
            }
            // An empty string is no key.
            guard let key = try? APIKey(String(decoding: bytes, as: UTF8.self)) else { continue }
            if key.sessionLimit != nil { reported += 1 }
        }
        #expect(reported < 5000)
        #expect(try APIKey("ek_plain").sessionLimit == nil)
        #expect(try APIKey(String(repeating: ".", count: 4000)).sessionLimit == nil)
        let deep = String(repeating: #"{"constraints":"#, count: 200)
        #expect(try APIKey(jwt(deep)).sessionLimit == nil)
    }
}
