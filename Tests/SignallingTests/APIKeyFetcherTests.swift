import DecartProtocol
import DecartSession
import Glibc
import Signalling
import TestSupport
import Testing

/// Fetches keys from a backend whose response each test scripts.
@Suite("Fresh keys", .timeLimit(.minutes(1)))
struct APIKeyFetcherTests {
    static let query = "token=canary-query-5f3a"
    static let secret = "canary-header-77aa"

    static func answer(_ head: String, _ body: String, extra: [String] = []) -> [UInt8] {
        let lines =
            ["HTTP/1.1 \(head)", "Content-Type: application/json", "Content-Length: \(body.utf8.count)"] + extra
        return [UInt8]((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)
    }

    private func fetcher(
        _ port: Int, headers: [(name: String, value: String)] = [("Authorization", "Bearer " + secret)],
        secure: Bool = false, configure: (inout HTTPConfiguration) -> Void = { _ in }
    ) throws -> APIKeyFetcher {
        var configuration = HTTPConfiguration()
        configure(&configuration)
        let host = secure ? "https://localhost" : "http://127.0.0.1"
        return APIKeyFetcher(
            url: try HTTPURL(backend: "\(host):\(port)/keys?\(Self.query)"), headers: try RequestHeaders(headers),
            configuration: configuration)
    }

    private func fetch(
        _ fetcher: APIKeyFetcher, timeout: Duration? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Result<ClientToken, SessionError> {
        let results = EventQueue<Result<ClientToken, SessionError>>()
        _ = fetcher.fetch(timeout: timeout) { results.yield($0) }
        return try #require(await results.next("a key or a failure", sourceLocation: sourceLocation))
    }

    private struct NoFailure: Error {}

    private func failure(_ fetcher: APIKeyFetcher, timeout: Duration? = nil) async throws -> SessionError {
        guard case .failure(let error) = try await fetch(fetcher, timeout: timeout) else { throw NoFailure() }
        return error
    }

    private func withBackend(
        _ script: Script, tls: Certificates? = nil, _ body: (RawServer) async throws -> Void
    ) async throws {
        let context = try tls?.server(name: "key", san: "DNS:localhost")
        try await withServer(script, tls: context, body)
    }

    private func script(_ bytes: [UInt8]?) -> Script { .http { _ in bytes } }

    @Test(arguments: [
        "{\"apiKey\":\"ek_fresh\",\"expiresAt\":\"2026-01-01T00:00:00Z\"}", "{\"apiKey\":\" ek_fresh\\n\"}",
        "{\"api_key\":\"ek_fresh\",\"expires_at\":null,\"more\":[1]}", "{\"token\":\"ek_fresh\"}",
    ])
    func theKeyIsRead(body: String) async throws {
        try await withBackend(script(Self.answer("200 OK", body))) { server in
            let token = try await fetch(fetcher(server.port)).get()
            #expect(token.key.reveal() == "ek_fresh")
            let request = try #require(server.requests.first)
            #expect(request.hasPrefix("POST /keys?\(Self.query) HTTP/1.1"))
            #expect(RawServer.header("Authorization", in: request) == "Bearer " + Self.secret)
            #expect(RawServer.header("Content-Length", in: request) == "2")
            #expect(RawServer.header("Host", in: request) == "127.0.0.1:\(server.port)")
            #expect(!"\(token) \(String(reflecting: token))".contains("ek_fresh"))
        }
    }

    struct Row: Sendable {
        var name: String
        var bytes: [UInt8]?
        var isPermanent = false
        var code = DecartErrorCode.server
        var status: Int?
        var closes = false
        var endless: [UInt8]?
    }

    static let rows: [Row] = [
        Row(name: "401", bytes: answer("401 No", "no \(secret)"), isPermanent: true, code: .invalidAPIKey, status: 401),
        Row(name: "403", bytes: answer("403 No", ""), isPermanent: true, code: .invalidAPIKey, status: 403),
        Row(name: "404", bytes: answer("404 No", ""), status: 404),
        Row(name: "429", bytes: answer("429 No", ""), status: 429),
        Row(name: "500", bytes: answer("500 No", "invalid api key"), status: 500),
        Row(
            name: "302", bytes: answer("302 Found", "", extra: ["Location: http://127.0.0.1:9/"]), code: .network,
            status: 302),
        Row(name: "307", bytes: answer("307 Moved", "", extra: ["Location: /x"]), code: .network, status: 307),
        Row(name: "page", bytes: answer("200 OK", "<html>"), status: 200),
        Row(name: "no key", bytes: answer("200 OK", "{\"expiresAt\":\"x\"}"), status: 200),
        Row(name: "empty key", bytes: answer("200 OK", "{\"apiKey\":\"\"}"), status: 200),
        Row(name: "number", bytes: answer("200 OK", "{\"apiKey\":7}"), status: 200),
        Row(name: "control character", bytes: answer("200 OK", "{\"apiKey\":\"a\\nb\"}"), status: 200),
        Row(name: "deep", bytes: answer("200 OK", "{\"apiKey\":" + String(repeating: "[", count: 5000)), status: 200),
        Row(name: "too long", bytes: answer("200 OK", "{\"a\":\"" + String(repeating: "x", count: 70_000) + "\"}")),
        Row(name: "not HTTP", bytes: [UInt8]("SSH-2.0-x\r\n\r\n".utf8), code: .webSocket),
        Row(name: "65 fields", bytes: answer("200 OK", "{}", extra: (0..<65).map { "X-\($0): y" }), code: .webSocket),
        Row(name: "cut off", bytes: answer("200 OK", "").dropLast(4) + [], code: .network, closes: true),
        Row(name: "closed", bytes: [], code: .network, closes: true),
        Row(
            name: "endless", bytes: [UInt8]("HTTP/1.1 200 OK\r\n\r\n".utf8),
            endless: [UInt8](repeating: 0x61, count: 4096)
        ),
        Row(
            name: "endless 100", bytes: [], code: .webSocket,
            endless: [UInt8](String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100).utf8)),
    ]

    @Test(arguments: rows.indices) func failures(_ index: Int) async throws {
        let row = Self.rows[index]
        var script = script(row.bytes)
        script.closes = row.closes
        script.endless = row.endless
        try await withBackend(script) { server in
            let error = try await failure(fetcher(server.port), timeout: .seconds(9))
            #expect(error.isPermanent == row.isPermanent, "\(row.name): \(error)")
            #expect(error.code == row.code, "\(row.name): \(error)")
            #expect(error.httpStatus == row.status, "\(row.name): \(error)")
            #expect(error.message.hasPrefix("No API key from api-key-url: "), "\(row.name): \(error)")
            #expect(!String(reflecting: error).contains("canary"), "\(row.name)")
            #expect(server.connections == 1, "\(row.name)")
        }
    }

    @Test(arguments: [
        ("Basic realm=\"keys\"", "Basic authentication: check the user name and password in api-key-url."),
        ("Bearer", "check api-key-headers."), ("Negotiate", "negotiate authentication, which is not supported"),
    ])
    func anAuthenticationThatIsWantedIsNamed(challenge: String, excerpt: String) async throws {
        let script = script(Self.answer("401 No", "", extra: ["WWW-Authenticate: \(challenge)"]))
        try await withBackend(script) { server in
            let error = try await failure(fetcher(server.port), timeout: .seconds(9))
            #expect(error.message.contains(excerpt))
        }
    }

    @Test func silenceTimesOut() async throws {
        try await withBackend(script(nil)) { server in
            // The configured limit is longer than the wait of this test.
            let fetcher = try fetcher(server.port) { $0.limit = .seconds(600) }
            let error = try await failure(fetcher, timeout: .milliseconds(200))
            #expect(error.code == .connectionTimeout && !error.isPermanent)
        }
    }

    @Test func nobodyListens() async throws {
        // Bound, so that no other process can take the port.
        let taken = try LoopbackSocket(stream: true, backlog: nil)
        defer { withExtendedLifetime(taken) {} }
        let error = try await failure(fetcher(Int(taken.port)))
        #expect(error.message.contains("connection refused"))
        #expect(!error.message.contains("canary"))
    }

    @Test func tlsIsVerified() async throws {
        let certificates = try Certificates()
        let reply = script(Self.answer("200 OK", "{\"apiKey\":\"ek_tls\"}"))
        try await withBackend(reply, tls: certificates) { server in
            let trusting = try fetcher(server.port, secure: true) {
                $0.trust = .only(file: certificates.path("ca.pem"))
            }
            #expect(try await fetch(trusting).get().key.reveal() == "ek_tls")
            let bytes = server.bytesReceived
            let error = try await failure(fetcher(server.port, secure: true))
            #expect(error.isPermanent && error.stage == .tls)
            #expect(server.bytesReceived == bytes)
        }
    }

    // MARK: Requests

    @Test(arguments: [
        ("http://backend.example/k", false), ("http://localhost:1/k", true), ("http://[::1]:1/k", true),
        ("https://backend.example", true), ("https://backend.example/k?model=a&api_key=b", true),
        ("ws://localhost/k", false), ("ftp://localhost/", false), ("https://u:p@host/", true),
        ("https://host/a b", false), ("https://host/\r\nX: y", false), ("https://host:0/", false), ("", false),
    ])
    func urls(text: String, isGood: Bool) {
        #expect(((try? HTTPURL(backend: text)) != nil) == isGood)
        #expect((try? HTTPURL(backend: "http://backend.example/k", allowInsecure: true)) != nil)
    }

    @Test func nothingSecretIsDescribed() throws {
        let url = try HTTPURL(backend: "https://host/k?\(Self.query)")
        let headers = try RequestHeaders([("X-Auth", Self.secret)])
        var dumped = ""
        dump(url, to: &dumped)
        dump(headers, to: &dumped)
        dump(APIKeyFetcher(url: url, headers: headers), to: &dumped)
        #expect(!(dumped + "\(url) \(headers)" + String(reflecting: (url, headers))).contains("canary"))
    }

    @Test(arguments: [
        ("X-A", "b", true), ("Authorization", "Bearer a b\tc", true), ("X", "", true), ("", "b", false),
        ("X A", "b", false), ("X:", "b", false), ("X\r\nY", "b", false), ("X", "a\r\nY: b", false), ("X", "a\n", false),
        ("X", "a\u{0}", false), ("X", "ü", false), ("ü", "b", false), ("Host", "b", false),
        ("content-length", "5", false), ("Transfer-Encoding", "chunked", false),
        ("X", String(repeating: "x", count: 9000), false),
    ])
    func headerFields(name: String, value: String, isGood: Bool) {
        #expect(((try? RequestHeaders([(name, value)])) != nil) == isGood)
    }
}
