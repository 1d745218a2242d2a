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
        #expect(try CandidateMessage(decodingInit: [UInt8](more.utf8)) == CandidateMessage(candidate: "c"))
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
        #expect(DecartErrorCode.allCases.count == 12)
    }

    @Test func prompts() throws {
        #expect(try Prompt("  x \n").text == "x")
        #expect(try Prompt("").isEmpty)
        #expect(try Prompt(String(repeating: "é", count: 1000)).text.count == 1000)
        #expect(try Prompt(String(repeating: "👨‍👩‍👧‍👦", count: 1000)).text.count == 1000)
        #expect(throws: ProtocolError.self) { try Prompt(String(repeating: "a", count: 1001)) }
        #expect(throws: ProtocolError.self) { try Prompt("a" + String(repeating: "\u{301}", count: 100_000)) }
        #expect(throws: ProtocolError.self) { try Prompt("a\u{0}b") }
    }

    @Test func base64() throws {
        // RFC 4648 §10
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

    @Test func subscribeTokens() throws {
        let direct = SubscribeToken.direct(sid: "s", ip: "1.2.3.4", port: 80)
        #expect(
            try direct.encoded()
                == Base64.encode([UInt8](#"{"ip":"1.2.3.4","port":80,"sid":"s"}"#.utf8), alphabet: .url))
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
}
