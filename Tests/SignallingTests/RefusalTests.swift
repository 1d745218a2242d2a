import DecartProtocol
import DecartSession
import Glibc
import Signalling
import TestSupport
import Testing

@Suite("Answers that are no upgrade", .timeLimit(.minutes(1)))
struct RefusalTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var head: String
        var body = ""
        var type = "application/json"
        var isPermanent: Bool
        var code: DecartErrorCode
        var status: Int?
        var contains: String
        var retryAfter: Int?
        var testDescription: String { head }
    }

    static let rows: [Row] = [
        Row(head: "401 Unauthorized", isPermanent: true, code: .invalidAPIKey, status: 401, contains: "API key"),
        Row(
            head: "403 Forbidden", body: #"{"error":"invalid api key \#(Client.key)"}"#, isPermanent: true,
            code: .invalidAPIKey, status: 403, contains: "invalid api key <redacted>"),
        Row(head: "404 Not Found", isPermanent: false, code: .webSocket, status: 404, contains: "base-url"),
        Row(head: "302 Found", isPermanent: false, code: .network, status: 302, contains: "not followed"),
        Row(head: "307 Temporary", isPermanent: false, code: .network, status: 307, contains: "not followed"),
        Row(
            head: "200 OK", body: "<html>Log in</html>", type: "text/html", isPermanent: false, code: .network,
            status: 200, contains: "login page"),
        Row(head: "511 Login", isPermanent: false, code: .network, status: 511, contains: "login page"),
        Row(
            head: "503 Busy", body: "frame 14012 is broken", type: "text/plain", isPermanent: false, code: .server,
            status: 503, contains: "frame 14012"),
        Row(
            head: "500 Oops", body: "session expired", type: "text/plain", isPermanent: true, code: .server,
            status: 500, contains: "session expired"),
        Row(
            head: "429 Slow down\r\nRetry-After: 7", isPermanent: false, code: .concurrencyLimit, status: 429,
            contains: "end another one", retryAfter: 7),
        Row(
            head: "503 Busy\r\nRetry-After: -1e99", isPermanent: false, code: .server, status: 503,
            contains: "is unavailable"),
        Row(
            head: "404 Not Found\r\nRetry-After: 7", isPermanent: false, code: .webSocket, status: 404,
            contains: "base-url"),
        // Bodies as FastAPI makes them, which the service's OpenAPI file shows.
        Row(
            head: "400 Bad", body: #"{"detail":"Invalid resolution"}"#, isPermanent: true, code: .invalidOptions,
            status: 400, contains: "(HTTP 400: Invalid resolution). Check model"),
        Row(
            head: "402 Pay", body: #"{"detail":"No credits left."}"#, isPermanent: true, code: .insufficientCredits,
            status: 402, contains: "(HTTP 402: No credits left). Top up"),
        Row(head: "410 Gone", isPermanent: true, code: .modelNotFound, status: 410, contains: "newer model"),
        Row(
            head: "422 No", body: #"{"detail":[{"type":"missing","loc":["query","model"],"msg":"Field required"}]}"#,
            isPermanent: true, code: .invalidOptions, status: 422, contains: "(HTTP 422: query.model: Field required)"),
        Row(
            head: "403 No", body: #"{"detail":"Insufficient credits"}"#, isPermanent: true, code: .insufficientCredits,
            status: 403, contains: "Top up"),
        Row(
            head: "404 No", body: #"{"error":"gone","error_type":"removed_model"}"#, isPermanent: true,
            code: .modelNotFound, status: 404, contains: "newer model"),
        Row(
            head: "503 No\r\nRetry-After: 9", body: #"{"error":"full","error_type":"upstream_capacity"}"#,
            isPermanent: false, code: .concurrencyLimit, status: 503, contains: "no capacity", retryAfter: 9),
        Row(
            head: "500 No", body: #"{"detail":"insufficient credits"}"#, isPermanent: false, code: .server, status: 500,
            contains: "is unavailable"),
        Row(
            head: "400 No", body: #"{"title":"Bad model"}"#, type: "application/problem+json", isPermanent: true,
            code: .invalidOptions, status: 400, contains: "(HTTP 400: Bad model). Check model"),
        Row(head: "426 Upgrade", isPermanent: false, code: .webSocket, status: 426, contains: "426"),
    ]

    @Test(arguments: rows) func refusal(_ row: Row) async throws {
        var script = Script()
        script.respond = { _ in
            let head = [
                "HTTP/1.1 \(row.head)", "Location: https://elsewhere.example/", "Content-Type: \(row.type)",
                "Content-Length: \(row.body.utf8.count)",
            ]
            return [UInt8]((head.joined(separator: "\r\n") + "\r\n\r\n" + row.body).utf8)
        }
        try await withServer(script) { server in
            let client = try Client(port: server.port)
            let error = try #require(await client.failure())
            #expect(error.isPermanent == row.isPermanent)
            #expect(error.code == row.code)
            #expect(error.httpStatus == row.status)
            #expect(error.retryAfter == row.retryAfter.map { .seconds($0) })
            #expect(error.stage == .upgrade)
            #expect(error.message.contains(row.contains), "\(error.message)")
            #expect(!error.message.contains("canary"))
            #expect(server.connections == 1)
        }
    }

    /// An upgrade with another field, or none, in place of `Upgrade`.
    private static func upgrade(_ request: String, to field: Substring?) -> [UInt8] {
        let lines = String(decoding: RawServer.upgrade(request), as: UTF8.self).split(separator: "\r\n")
        let changed = lines.compactMap { $0.hasPrefix("Upgrade") ? field : $0 }
        return [UInt8]((changed.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }

    static let malformed: [(String, @Sendable (String) -> [UInt8])] = [
        ("wrong hash", { RawServer.upgrade($0, accept: "AAAAAAAAAAAAAAAAAAAAAAAAAAA=") }),
        ("no hash", { _ in [UInt8]("HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".utf8) }),
        ("no upgrade header", { upgrade($0, to: nil) }), ("another protocol", { upgrade($0, to: "Upgrade: h2c") }),
        ("extension", { RawServer.upgrade($0, extra: ["Sec-WebSocket-Extensions: permessage-deflate"]) }),
        ("subprotocol", { RawServer.upgrade($0, extra: ["Sec-WebSocket-Protocol: chat"]) }),
        ("65 header fields", { RawServer.upgrade($0, extra: (0..<65).map { "X-\($0): y" }) }),
        ("17 KiB of headers", { RawServer.upgrade($0, extra: ["X: " + String(repeating: "y", count: 17 << 10)]) }),
        ("not HTTP", { _ in [UInt8]("SSH-2.0-OpenSSH_9.2\r\n\r\n".utf8) }),
        ("HTTP/0.9", { _ in [UInt8]("<html></html>\r\n\r\n".utf8) }),
        ("binary", { _ in [UInt8](0...255) + [13, 10, 13, 10] }),
        ("NUL in a header", { RawServer.upgrade($0, extra: ["X: a\u{0}b"]) }),
    ]

    @Test(arguments: malformed.indices) func malformedHandshake(_ index: Int) async throws {
        let (name, respond) = RefusalTests.malformed[index]
        var script = Script()
        script.respond = { respond($0) }
        try await withServer(script) { server in
            let client = try Client(port: server.port)
            let events = await client.run()
            guard case .failed(let error) = events.last, events.count == 1 else {
                Issue.record("\(name): \(events)")
                return
            }
            #expect(error.code == .webSocket, "\(name): \(error)")
            #expect(!error.isPermanent, "\(name)")
            #expect(!error.message.contains("canary"), "\(name)")
        }
    }

    /// Opens a channel to a server that answers with these bytes, and returns the error that ends it.
    private func failure(
        _ answer: String?, endless: String? = nil, closes: Bool = false, roomToken: String? = nil,
        timeout: Duration = .seconds(50)
    ) async throws -> SessionError {
        var script = Script()
        script.respond = { _ in answer.map { [UInt8]($0.utf8) } }
        script.endless = endless.map { [UInt8]($0.utf8) }
        script.closes = closes
        var error: SessionError?
        try await withServer(script) { server in
            error = await (try Client(port: server.port, roomToken: roomToken)).failure(timeout: timeout)
        }
        return try #require(error)
    }

    @Test(arguments: ["X: y\r\n", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", "X: y\r\n y\r\n"])
    func endlessHeaders(_ line: String) async throws {
        let error = try await failure(
            "HTTP/1.1 101 Switching Protocols\r\n", endless: String(repeating: line, count: 200))
        // The size limit ends it, not the timeout.
        #expect(error.code == .webSocket)
    }

    @Test func endlessStatusLine() async throws {
        let error = try await failure("HTTP/1.1 101 ", endless: String(repeating: "a", count: 4096))
        #expect(error.stage == .upgrade)
    }

    @Test func endlessBodyIsCutOff() async throws {
        let error = try await failure(
            "HTTP/1.1 403 No\r\nContent-Type: text/plain\r\n\r\n", endless: String(repeating: "a", count: 4096))
        #expect(error.httpStatus == 403)
        #expect(error.message.utf8.count < 500)
    }

    @Test func endlessInformationalAnswers() async throws {
        let error = try await failure("", endless: String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100))
        #expect(error.stage == .upgrade)
    }

    @Test func bodyEndedByClosingIsRead() async throws {
        let error = try await failure(
            "HTTP/1.1 401 No\r\nContent-Type: text/plain\r\n\r\nno such key", closes: true)
        #expect(error.httpStatus == 401)
        #expect(error.message.contains("no such key"))
    }

    /// A room refuses the token that it got from the service; the user's key is not at fault.
    @Test func aRoomRefusesAToken() async throws {
        let message = try await failure(
            "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", roomToken: "token-of-a-room"
        ).message
        #expect(message.contains("the token of the room") && !message.contains("API key"), "\(message)")
    }

    @Test func closingWithoutAnAnswerIsALostConnection() async throws {
        let error = try await failure("", closes: true)
        #expect(error.code == .network && error.message.contains("use wss://"))
        #expect(!error.isPermanent)
    }

    @Test func slowUpgradeTimesOut() async throws {
        let error = try await failure(nil, timeout: .milliseconds(1300))
        #expect(error.code == .connectionTimeout)
        #expect(error.message.contains("1.3 s"), "\(error.message)")
    }

    @Test func refusedConnection() async throws {
        // Bound, so that no other process can take the port during the test.
        let taken = try LoopbackSocket(stream: true, backlog: nil)
        let client = try Client(port: Int(taken.port))
        let error = try #require(await client.failure())
        #expect(error.message.contains("connection refused"))
        #expect(error.message.contains("127.0.0.1:\(taken.port)"))
        #expect(!error.message.contains("canary"))
        #expect(error.stage == .connect)
    }

    @Test func unknownHost() async throws {
        // RFC 6761: the name never resolves; the local resolver may also be unreachable.
        let client = try Client(port: 9, host: "nowhere.invalid")
        let error = try #require(await client.failure())
        #expect(error.stage == .resolve)
        #expect(error.message.contains("nowhere.invalid"))
        #expect(!error.isPermanent)
    }
}
