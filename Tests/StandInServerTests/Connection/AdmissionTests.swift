import DecartProtocol
import StandInServer
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct AdmissionTests {
    @Test(arguments: [
        ("/v1/stream?api_key=k&model=m", nil), ("/prefix/v1/stream?model=m&api_key=k", nil),
        ("/v1/stream?api_key=&model=m", 401), ("/v1/stream?model=m", 401), ("/v1/stream", 401),
        ("/v1/stream?api_key=k", 400), ("/v1/stream?api_key=k&model=", 400), ("/v1/stream?api_key=k&model=a%20b", nil),
        ("/v2/stream?api_key=k&model=m", 404), ("/?api_key=k&model=m", 404),
    ])
    func theRequestLineDecides(target: String, status: UInt?) throws {
        try TestServer.run { server in
            if let status {
                #expect(throws: TestClient.Refused(status: status)) { try server.connect(target) }
                #expect(server.server.sessions.isEmpty)
            } else {
                let client = try server.greeted(target)
                client.close()
            }
        }
    }

    /// Browsers send the page's origin with each WebSocket: foreign pages must not open sessions or view them.
    @Test(arguments: [
        ("localhost:9001", nil, true), ("127.0.0.1:9001", "http://localhost:3000", true),
        ("[::1]:9001", "http://[::1]:9001", true), ("127.0.0.1:9001", "ws://127.0.0.1:9001", true),
        ("127.0.0.1:9001", "https://evil.example", false), ("127.0.0.1:9001", "null", false),
        ("127.0.0.1:9001", "", false), ("127.0.0.1:9001", "http://localhost.evil.example", false),
        ("127.0.0.1:9001", "http://localhost@evil.example", false), ("evil.example:9001", nil, false),
        ("evil.example:9001", "http://evil.example:9001", false),
    ])
    func pagesOfOthersAreRefused(host: String, origin: String?, isTaken: Bool) throws {
        try TestServer.run { server in
            let id = try server.connect().expectGreeting().id
            for target in [TestServer.target, "/subscribe/\(id)?api_key=k", "/rtc?access_token=none"] {
                let client = try RawSocket(port: server.port)
                client.request(target, host: host, extra: origin.map { "Origin: \($0)\r\n" } ?? "")
                client.read { $0.contains(10) }
                let taken = target.hasPrefix("/rtc") ? "HTTP/1.1 401 " : "HTTP/1.1 101 "
                #expect(client.text.hasPrefix(isTaken ? taken : "HTTP/1.1 403 "), "\(target): \(client.text)")
            }
        }
    }

    /// A stand-in that serves other machines may be reached under any host name.
    @Test(
        arguments: [
            (true, nil, "https://page.example", 101), (false, "0.0.0.0", nil, 101),
            (false, "0.0.0.0", "https://evil.example", 403),
        ] as [(Bool, String?, String?, Int)])
    func anyHostNameIsTakenWhenAskedTo(allowsBrowsers: Bool, address: String?, origin: String?, status: Int) throws {
        try TestServer.run({ ($0.allowsBrowsers, $0.host) = (allowsBrowsers, address) }) { server in
            let client = try RawSocket(port: server.port)
            let extra = origin.map { "Origin: \($0)\r\n" } ?? ""
            client.request(TestServer.target, host: "any.example", extra: extra)
            client.read { $0.contains(10) }
            #expect(client.text.hasPrefix("HTTP/1.1 \(status) "))
        }
    }

    @Test func onlyTheGivenKeyOpens() throws {
        try TestServer.run({ $0.keys = KeyPolicy(accepted: ["right key+/"]) }) { server in
            let client = try server.connect("/v1/stream?api_key=right%20key%2B%2F&model=m")
            client.close()
            #expect(throws: TestClient.Refused(status: 401)) { try server.connect("/v1/stream?api_key=wrong&model=m") }
        }
    }

    @Test func aFullHouseRefusesAndAFreedPlaceIsTakenAgain() throws {
        try TestServer.run({ $0.maximumSessionCount = 1 }) { server in
            let first = try server.connect()
            #expect(throws: TestClient.Refused(status: 503)) { try server.connect() }
            first.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
            try server.connect().close()
        }
    }

    @Test(arguments: LimitAnswer.allCases)
    func anAccountHasALimit(answer: LimitAnswer) throws {
        try TestServer.run({ ($0.sessionLimit, $0.limitAnswer) = (2, answer) }) { server in
            let first = try server.connect()
            let id = try server.connect().expectGreeting().id
            // A viewer has no session of its own.
            _ = try server.connect("/subscribe/\(id)?api_key=k")
            for _ in 0..<3 {
                guard answer != .http else {
                    #expect(throws: TestClient.Refused(status: 429)) { try server.connect() }
                    continue
                }
                let refused = try RawSocket.webSocket(port: server.port)
                #expect(refused.read() == .finished)
                #expect(refused.frames.count == (answer == .error ? 2 : 1))
                #expect(refused.text.contains("Concurrent session limit reached") == (answer == .error))
                #expect(refused.frames.last.map { [$0.first] + $0.payload } == [0x88, 0x03, 0xF5])
            }
            first.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.isOpen == false })
            _ = try server.connect().expectGreeting()
        }
    }

    @Test func theRequestIsRecorded() throws {
        try TestServer.run { server in
            let client = try server.connect(
                "/v1/stream?api_key=k&model=lucy-2.1&pixel_latency=1&resolution=720p&speed=fast&user_agent=a%2F1"
                    + "&livekit_server_codec=vp8")
            let identity = try client.expectGreeting()
            let record = try #require(server.server.sessions.first)
            #expect(record.sessionID == identity.id)
            #expect(identity.serverIP == "127.0.0.1")
            #expect(identity.serverPort == server.port)
            #expect(record.request.model == "lucy-2.1")
            #expect(record.request.wantsLatencyMarker)
            #expect(record.request.resolution == "720p")
            #expect(record.request.speed == "fast")
            #expect(record.request.userAgent == "a/1")
            #expect(record.request.serverCodec == "vp8" && record.request.otherItems.isEmpty)
        }
    }

    @Test func bothLoopbackAddressesAreServed() throws {
        try TestServer.run { server in
            let client = try TestClient(port: server.port, host: "::1", target: TestServer.target)
            #expect(try client.expectGreeting().serverIP == "::1")
            client.close()
        }
    }

    @Test func noKeyReachesTheLog() throws {
        try TestServer.run { server in
            let key = "SECRET-5f3a"
            let (client, media) = try {
                let client = try server.greeted("/v1/stream?api_key=\(key)&model=m")
                try client.send(.prompt(PromptMessage(text: "lego", enhance: false)))
                try client.send(.offer(sdp: "v=0"))
                try client.awaitAnswer()
                return (client, try #require(server.engine.sessions.last))
            }()
            media.onEvent(.failed("the peer went away"))
            _ = try client.next { $0 == .message(.error("the peer went away")) }
            client.sendText("{\"type\":1}".utf8)
            for target in ["/v2?api_key=\(key)", "/v1/stream?api_key=\(key)", "/v1/stream?api_key=\(key)&model="] {
                #expect(throws: TestClient.Refused.self) { try server.connect(target) }
            }
            client.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
            #expect(!server.log.isEmpty)
            #expect(!server.log.contains { $0.contains(key) })
            #expect(!String(reflecting: server.server.sessions).contains(key))
        }
    }

    @Test func aPolicyWithKeysDoesNotShowThem() {
        var configuration = StandInConfiguration()
        configuration.keys = KeyPolicy(accepted: ["SECRET"], rejected: ["SECRET2"])
        var dumped = ""
        dump(configuration, to: &dumped)
        #expect(!(dumped + String(reflecting: configuration) + "\(configuration)").contains("SECRET"))
    }
}
