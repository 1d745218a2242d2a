import ConnectionCheck
import DecartProtocol
import Testing

struct ReportTests {
    // MARK: Known messages

    /// One message of each type with every field, as DecartProtocol encodes it.
    private static let messages: [ServerMessage] = [
        .status("ready"), .queuePosition(QueuePosition(position: 1, size: 2)), .ready,
        .sessionID(SessionIdentity(id: "s", serverIP: "192.0.2.1", serverPort: 1)),
        .promptAck(PromptAck(prompt: "p", success: true, error: "e")),
        .setImageAck(SetImageAck(success: true, error: "e")), .offer(sdp: "v=0"), .answer(sdp: "v=0"),
        .iceCandidate(CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)),
        .turnConfig(TURNConfig(urls: ["turn:host"], username: "u", credential: Secret("c"))),
        .livekitRoomInfo(LiveKitRoomInfo(url: "wss://r", token: Secret("t"), roomName: "n", sessionID: "s")),
        .generationStarted, .generationTick(seconds: 1), .generationEnded(seconds: 1, reason: "r"),
        .error("e", type: "t"),
    ]

    @Test func theTableHasEveryMessageOfTheProtocol() throws {
        #expect(Set(Self.messages.map(\.type)) == Set(KnownMessages.fromService.keys))
        let text = report(try Self.recording(Self.messages)).text
        #expect(text.contains("livekit_room_info") && !text.contains("known"))
    }

    private static func recording(_ messages: [ServerMessage]) throws -> [SessionRecording.Entry] {
        try messages.map { .init(time: 1, attempt: 1, event: .received(try $0.encoded())) }
    }

    // MARK: What is new

    private func received(_ texts: String...) -> [SessionRecording.Entry] {
        texts.enumerated().map { .init(time: $0 * 10, attempt: 1, event: .received([UInt8]($1.utf8))) }
    }

    private func report(_ entries: [SessionRecording.Entry], secrets: [String] = []) -> JSONValue {
        CheckReport(CheckOutput(service: "wss://host", model: "m", results: []), entries, secrets: secrets).json
    }

    @Test func whatIsNewIsNamed() {
        let json = report(
            received(
                #"{"type":"status","status":"ready","region":"north"}"#, #"{"type":"weather","sky":{"is":["blue"]}}"#,
                "[]", "no JSON"))
        guard case .array(let events)? = json["events"], events.count == 4 else {
            Issue.record("\(json.text)")
            return
        }
        #expect(events[0]["known"] == nil && events[0]["unknown-fields"] == .array(["region"]))
        #expect(events[1]["type"] == "weather" && events[1]["known"] == .bool(false))
        for event in events[2...] { #expect(event["type"] == .null && event["known"] == .bool(false)) }
        let text = json.text
        #expect(text.contains("<text of 4 characters>"))
        #expect(!text.contains("north") && !text.contains("blue"))
        #expect(text.contains("\"status\": \"ready\""))
    }

    @Test func aValueThatEqualsANameHidesNoName() {
        let text = report(received(#"{"type":"prompt_ack","prompt":"session_id","success":true}"#)).text
        #expect(text.contains("\"prompt_ack\"") && text.contains("\"prompt\"") && !text.contains("<redacted>"))
    }

    // MARK: Secrets

    /// Every secret of a session, in the message that carries it and repeated in every text for people.
    @Test func noSecretIsInTheReport() throws {
        let secrets = [
            "permanent-key", "Paint a red barn", "room-token-a.b.c", "the-room", "wss://room.example", "session-7",
            "turn-user", "turn-credential", "192.0.2.55", "secret-ufrag", "secret-password-of-ice",
        ]
        let repeated = secrets.joined(separator: " ")
        let sdp = [
            "v=0", "m=video 9 UDP/TLS/RTP/SAVPF 96", "a=rtpmap:96 VP8/90000", "a=ice-ufrag:secret-ufrag",
            "a=ice-pwd:secret-password-of-ice", "a=candidate:1 1 UDP 1 192.0.2.55 9 typ srflx raddr 0.0.0.0 rport 9",
        ].joined(separator: "\r\n")
        let candidate = "candidate:1 1 UDP 1 192.0.2.55 9 typ relay raddr 0.0.0.0 rport 9 ufrag secret-ufrag"
        let fromService: [ServerMessage] = [
            .sessionID(SessionIdentity(id: "session-7", serverIP: "192.0.2.55", serverPort: 9)),
            .livekitRoomInfo(
                LiveKitRoomInfo(
                    url: "wss://room.example", token: Secret("room-token-a.b.c"), roomName: "the-room",
                    sessionID: "session-7")),
            .turnConfig(
                TURNConfig(urls: ["turn:192.0.2.55"], username: "turn-user", credential: Secret("turn-credential"))),
            .answer(sdp: sdp), .iceCandidate(CandidateMessage(candidate: candidate)),
            .promptAck(PromptAck(prompt: "Paint a red barn", success: false, error: repeated)), .status(repeated),
            .error("invalid api key permanent-key"), .generationEnded(seconds: 3, reason: repeated),
        ]
        var entries = try Self.recording(fromService)
        let prompt = ClientMessage.prompt(PromptMessage(text: "Paint a red barn", enhance: false))
        let shut = "closed: \(repeated)"
        entries += [
            .init(time: 0, attempt: 1, event: .requested(items: ["api_key"])),
            .init(time: 5, attempt: 1, event: .sent(try prompt.encoded())),
            .init(time: 6, attempt: 1, event: .closed(code: 1011, reason: shut)),
            .init(time: 7, attempt: 1, event: .failed(code: "X", stage: "channel", httpStatus: 401, message: repeated)),
            .init(
                time: 8, attempt: 1,
                event: .received([UInt8](#"{"type":"permanent-key","permanent-key":{"session-7":"the-room"}}"#.utf8))),
        ]
        var output = CheckOutput(service: "wss://host", model: "m", results: [])
        var summary = SessionSummary()
        summary.messages = [.init(isError: true, time: 0, code: "SERVER_ERROR", text: repeated)]
        output.session = summary
        output.results = [summary.result("host")]
        // ICE credentials are secrets within an SDP, which is a secret as a whole.
        let text = CheckReport(output, entries, secrets: ["permanent-key", "secret-ufrag", "secret-password-of-ice"])
            .json.text
        for secret in secrets { #expect(!text.contains(secret), "\(secret)") }
        // Guards against a report that is empty.
        for word in ["VP8/90000", "srflx udp", "relay udp", "invalid api key <redacted>", "1011", "prompt_ack"] {
            #expect(text.contains(word), "\(word)")
        }
        #expect(entries.count < 30 && !text.isEmpty)
    }

    @Test(arguments: [
        ("The key sk_live_0123456789abcdef is unknown", "The key <redacted> is unknown"),
        ("at 192.0.2.1:443", "at <redacted>"), ("close 1013, retry in 20 s", "close 1013, retry in 20 s"),
        ("Concurrent session limit reached", "Concurrent session limit reached"),
        ("my%20secret and my secret", "<redacted> and <redacted>"),
    ])
    func textsForPeople(text: String, redacted: String) {
        #expect(Redactor(["my secret", "abc"])(text) == redacted)
    }

    /// A long session has more texts than are kept.
    @Test func secretsStayBesideTextsOfMessages() {
        let redact = Redactor(["my secret"], others: (0..<1000).map { "text-\($0)" })
        #expect(redact("my secret, text-999") == "<redacted>, <redacted>")
    }

    // MARK: Parts

    @Test func anSDPsFacts() {
        let facts = SDPFacts(
            """
            v=0
            a=group:BUNDLE 0
            a=ice-lite
            m=video 9 UDP/TLS/RTP/SAVPF 96
            a=rtpmap:96 H264/90000
            a=rtcp-fb:96 nack pli
            a=extmap:1 urn:ietf:params:rtp-hdrext:sdes:mid
            a=sendonly
            a=candidate:1 1 TCP 1 abc.local 9 typ host tcptype passive
            """)
        #expect(facts.isLite && facts.isBundled && facts.candidates == ["host mdns tcp": 1])
        #expect(facts.media.map(\.kind) == ["video"] && facts.media.first?.direction == "sendonly")
        #expect(facts.media.first?.codecs == ["H264/90000"] && facts.media.first?.feedback == ["nack pli"])
        #expect(SDPFacts("a=rtpmap:1 x y\r\nm=\r\na=candidate:\r\nm=a b\r\na=rtpmap").media.count == 2)
    }

    @Test(
        arguments: [
            ([0x0A, 0x00], true, "offer", true), ([0x0A, 0x00], false, "join", true),
            ([0xD2, 0x01, 0x00], false, "field 26", false), ([], false, "malformed", false),
            ([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], true, "malformed", false),
            ([0x0A, 0x7F], true, "malformed", false), ([0x70, 0x05], true, "ping", true),
        ] as [([UInt8], Bool, String, Bool)])
    func roomMessages(bytes: [UInt8], isSent: Bool, kind: String, isKnown: Bool) {
        let message = RoomMessage(bytes, isSent: isSent)
        #expect(message.kind == kind && message.isKnown == isKnown)
    }

    @Test func aRoomsDescriptionAndCandidate() {
        let sdp = [UInt8]("m=audio 9 x 111\r\na=rtpmap:111 opus/48000/2".utf8)
        let description = RoomMessage([0x12, UInt8(sdp.count + 2), 0x12, UInt8(sdp.count)] + sdp, isSent: false)
        #expect(description.kind == "answer" && description.sdp?.media.first?.codecs == ["opus/48000/2"])
        let candidate = [UInt8](#"{"candidate":"candidate:1 1 udp 1 192.0.2.1 9 typ host"}"#.utf8)
        let trickle = RoomMessage(
            [0x22, UInt8(candidate.count + 2), 0x0A, UInt8(candidate.count)] + candidate, isSent: false)
        #expect(trickle.kind == "trickle" && trickle.candidate == "host udp")
    }

    @Test func jsonIsEscaped() throws {
        let value = JSONValue.fields([
            "a\"\\\n\u{7}": .string("\u{1F600} \u{85}"), "b": .array([]), "c": .number(1.5), "d": .number(.infinity),
            "e": .integer(3), "f": nil,
        ])
        #expect(
            value.text
                == "{\n  \"a\\\"\\\\\\n\\u0007\": \"\u{1F600} \\u0085\",\n  \"b\": [],\n  \"c\": 1.5,\n  \"d\": null,\n"
                + "  \"e\": 3\n}")
        let read = try JSONValue(decoding: [UInt8](value.text.utf8))
        #expect(read["e"] == .number(3) && read["c"] == .number(1.5) && read["b"] == .array([]))
        try #expect(JSONValue(decoding: [UInt8](#"{"a":true,"b":"1","c":null}"#.utf8)).text.contains("\"a\": true"))
    }
}
