import DecartProtocol
import StandInServer
import Testing

/// Client tokens of the stand-in, which `decart-check` requests.
@Suite(.timeLimit(.minutes(1)))
struct ClientTokenTests {
    private func post(
        _ server: TestServer, key: String?, body: String = "", method: String = "POST", query: String = "",
        extra: String = "", path: String = "/v1/client/tokens"
    ) throws -> String {
        let field = key.map { "X-API-KEY: \($0)\r\n" } ?? ""
        return try ask(server.port, method, path + query, body: body, extra: field + extra)
    }

    private func run(
        _ configure: (inout StandInConfiguration) -> Void = { _ in }, _ body: (TestServer) throws -> Void
    ) throws {
        try TestServer.run(
            {
                $0.keys = KeyPolicy(accepted: ["permanent"])
                configure(&$0)
            }, body)
    }

    private func token(in answer: String) throws -> ClientToken {
        let start = try #require(answer.firstIndex(of: "{"), "\(answer)")
        return try ClientToken(decoding: [UInt8](answer[start...].utf8))
    }

    @Test func aTokenOpensASession() throws {
        try run { server in
            let answer = try post(server, key: "permanent", body: #"{"expiresIn":30,"metadata":{"a":1}}"#)
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            let token = try token(in: answer)
            #expect(token.expiresAt?.hasSuffix("Z") == true)
            _ = try server.greeted("/v1/stream?api_key=\(token.key.reveal())&model=m")
            #expect(throws: TestClient.Refused(status: 401)) {
                try server.connect("/v1/stream?api_key=\(token.key.reveal())x&model=m")
            }
            // A token makes no tokens.
            try #expect(post(server, key: token.key.reveal()).hasPrefix("HTTP/1.1 403"))
            #expect(!server.log.contains { $0.contains(token.key.reveal()) })
        }
    }

    /// The limit is that of the request, else that of the configuration, and ends the session.
    @Test func aTokenMayLimitItsSessions() throws {
        try run({ $0.maximumSessionDuration = 77 }) { server in
            func token(_ body: String) throws -> ClientToken {
                try self.token(in: post(server, key: "permanent", body: body))
            }
            try #expect(token("{}").sessionLimit == .seconds(77))
            let short = try token(#"{"constraints":{"realtime":{"maxSessionDuration":1}}}"#)
            #expect(short.sessionLimit == .seconds(1))
            // Before the session begins, so that a slow client cannot see it too short.
            let opened = ContinuousClock.now
            let client = try server.greeted("/v1/stream?api_key=\(short.key.reveal())&model=m")
            _ = try client.next { $0 == .closeFrame(code: 1000) }
            #expect(ContinuousClock.now - opened > .milliseconds(800))
            let answer = try post(
                server, key: "permanent", body: #"{"constraints":{"realtime":{"maxSessionDuration":0}}}"#)
            #expect(answer.hasPrefix("HTTP/1.1 400"))
        }
    }

    @Test func requestsThatAreRefused() throws {
        try run { server in
            try #expect(post(server, key: "permanent").hasPrefix("HTTP/1.1 200"))
            try #expect(post(server, key: "other").hasPrefix("HTTP/1.1 401"))
            try #expect(post(server, key: nil).hasPrefix("HTTP/1.1 401"))
            try #expect(post(server, key: "permanent", method: "GET").hasPrefix("HTTP/1.1 405"))
            for body in [#"{"expiresIn":0}"#, #"{"expiresIn":3601}"#, #"{"expiresIn":"x"}"#, "[", "x"] {
                try #expect(post(server, key: "permanent", body: body).hasPrefix("HTTP/1.1 400"), "\(body)")
            }
            try #expect(post(server, key: "permanent", query: "?fault=http_429").hasPrefix("HTTP/1.1 429"))
            let page = "Origin: https://evil.example\r\n"
            try #expect(post(server, key: "permanent", extra: page).hasPrefix("HTTP/1.1 403"))
        }
    }

    /// `RealtimeQuotaResponse` of the service's OpenAPI file.
    @Test func theQuotaCountsSessions() throws {
        try run({ $0.sessionLimit = 2 }) { server in
            func quota(_ key: String = "permanent") throws -> String {
                try post(server, key: key, method: "GET", path: "/v1/realtime/quota")
            }
            try #expect(quota().contains(#"{"limit":2,"active":0,"remaining":2}"#))
            let client = try server.greeted("/v1/stream?api_key=permanent&model=m")
            try #expect(quota().contains(#"{"limit":2,"active":1,"remaining":1}"#))
            client.close()
            try #expect(quota("other").hasPrefix("HTTP/1.1 401"))
            try #expect(quota("other").contains(#"{"detail":"Invalid API key"}"#))
            #expect(server.server.sessions.count == 1)
        }
    }

    @Test func tokensExpire() throws {
        let tokens = ClientTokens()
        let token = try #require(tokens.token(expiry: 1000))
        #expect(tokens.admits(token, now: 999) == true && tokens.admits(token, now: 1000) == false)
        #expect(ClientTokens().admits(token, now: 999) == nil)
        for bad in ["", "ek_", "ek_.", "ek_x.y", token + "A", String(token.dropFirst())] {
            #expect(tokens.admits(bad, now: 0) == nil, "\(bad)")
        }
    }
}

/// Web pages of permitted origins may ask for client tokens and for rooms to watch.
@Suite(.timeLimit(.minutes(1)))
struct CrossOriginTests {
    private static let asked = "Access-Control-Request-Method: POST\r\n"

    @Test(arguments: ["/v1/client/tokens", "/v1/watch-stream/room-1"]) func aPermittedPage(path: String) throws {
        try TestServer.run({ $0.allowsBrowsers = true }) { server in
            let origin = "Origin: https://page.example\r\n"
            let preflight = try ask(server.port, "OPTIONS", path, extra: origin + Self.asked)
            #expect(preflight.hasPrefix("HTTP/1.1 200") && preflight.contains("x-api-key, content-type"))
            #expect(preflight.contains("Access-Control-Allow-Origin: https://page.example"))
            let answer = try ask(server.port, "POST", path, extra: origin + "X-API-KEY: x\r\n")
            #expect(answer.contains("Access-Control-Allow-Origin: https://page.example"))
        }
    }

    @Test func anotherPage() throws {
        try TestServer.run { server in
            let answer = try ask(
                server.port, "OPTIONS", "/v1/client/tokens", extra: "Origin: https://page.example\r\n" + Self.asked)
            #expect(answer.hasPrefix("HTTP/1.1 403") && !answer.contains("Access-Control-Allow-Origin"))
        }
    }

    @Test func otherPathsAreNotForPages() throws {
        try TestServer.run({ $0.allowsBrowsers = true }) { server in
            let answer = try ask(
                server.port, "OPTIONS", "/v1/stream", extra: "Origin: https://page.example\r\n" + Self.asked)
            #expect(!answer.contains("Access-Control-Allow-Origin"))
        }
    }
}
