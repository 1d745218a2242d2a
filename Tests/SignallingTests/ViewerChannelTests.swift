import DecartProtocol
import DecartSession
import Signalling
import Testing

/// A viewer's request for a room, against a scripted service.
@Suite("Rooms to watch", .timeLimit(.minutes(1)))
struct ViewerChannelTests {
    private static let key = "canary-key-1234+/"
    private static let answer =
        #"{"livekit_url":"wss://room.example","token":"canary-token","room_name":"a/b","session_id":"s","more":[1]}"#

    /// Opens a channel and collects its events; the first text or failure ends it.
    private func ask(
        _ bytes: [UInt8]?, room: String = "a/b ?", timeout: Duration = .seconds(5), closes: Bool = false,
        _ check: (RawServer, [SignallingEvent]) throws -> Void
    ) async throws {
        try await withServer(.http(closes: closes) { _ in bytes }) { server in
            let events = EventQueue<SignallingEvent>()
            let channel = try channel(server, room: room) { event in
                events.record(event)
                if case .text = event { events.finish() }
            }
            channel.open(timeout: timeout)
            let received = await events.rest()
            channel.close()
            try check(server, received)
        }
    }

    private func channel(
        _ server: RawServer, room: String, onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) throws -> ViewerChannel {
        let key = try APIKey(Self.key)
        let base = try ServiceURL(base: "ws://127.0.0.1:\(server.port)/base")
        return ViewerChannel(url: base.watchStream(key: key, room: room), key: key, onEvent: onEvent)
    }

    @Test func theRoomIsNamed() async throws {
        try await ask(APIKeyFetcherTests.answer("200 OK", Self.answer)) { server, events in
            #expect(events.count == 2)
            guard case .opened(nil, let time) = events.first, time != nil, case .text(let text) = events.last else {
                Issue.record("heard \(events.count) events")
                return
            }
            let info = LiveKitRoomInfo(
                url: "wss://room.example", token: Secret("canary-token"), roomName: "a/b", sessionID: "s")
            #expect(try ServerMessage(decoding: text) == .livekitRoomInfo(info))
            let request = try #require(server.requests.first)
            #expect(request.hasPrefix("POST /base/watch-stream/a%2Fb%20%3F HTTP/1.1\r\n"))
            #expect(RawServer.header("x-api-key", in: request) == Self.key)
            #expect(RawServer.header("Content-Length", in: request) == "0")
            // The key is in the header only.
            #expect(request.split(separator: "canary").count == 2)
        }
    }

    struct Row: Sendable {
        var bytes: [UInt8]?
        var isPermanent = false
        var code = DecartErrorCode.server
        var status: Int?
        var excerpt = ""
        var closes = false
    }

    private static func http(_ head: String, _ body: String) -> [UInt8] { APIKeyFetcherTests.answer(head, body) }

    static let rows = [
        Row(bytes: http("401 No", ""), isPermanent: true, code: .invalidAPIKey, status: 401, excerpt: "API key"),
        Row(bytes: http("403 No", ""), isPermanent: true, code: .invalidAPIKey, status: 403, excerpt: "API key"),
        Row(
            bytes: http("404 No", #"{"detail":"x"}"#), isPermanent: true, status: 404,
            excerpt: "session to watch does not exist"),
        Row(bytes: http("429 No", ""), code: .concurrencyLimit, status: 429),
        Row(bytes: http("500 No", ""), status: 500),
        Row(bytes: http("302 Found", ""), code: .network, status: 302, excerpt: "not followed"),
        Row(bytes: http("200 OK", "<html>"), status: 200, excerpt: "no room"),
        Row(bytes: http("200 OK", #"{"token":"canary"}"#), status: 200),
        Row(bytes: http("200 OK", #"{"livekit_url":5,"token":"canary"}"#), status: 200),
        Row(bytes: http("200 OK", #"{"a":"# + String(repeating: "[", count: 5000)), status: 200),
        Row(bytes: http("200 OK", String(repeating: "x", count: 70_000)), excerpt: "exceeds the size limit"),
        Row(bytes: [UInt8]("SSH-2.0-x\r\n\r\n".utf8), code: .webSocket),
        Row(bytes: [], code: .network, closes: true),
        Row(bytes: nil, code: .connectionTimeout),
    ]

    @Test(arguments: rows.indices) func refusals(index: Int) async throws {
        let row = Self.rows[index]
        let timeout: Duration = row.bytes == nil ? .seconds(1) : .seconds(15)
        try await ask(row.bytes, timeout: timeout, closes: row.closes) { server, events in
            guard events.count == 1, case .failed(let error) = events.first else {
                Issue.record("row \(index): \(events.count) events")
                return
            }
            #expect(error.isPermanent == row.isPermanent && error.code == row.code, "\(index): \(error)")
            #expect(error.httpStatus == row.status && error.message.contains(row.excerpt), "\(index): \(error)")
            #expect(!String(reflecting: error).contains("canary"), "\(index)")
            #expect(server.connections == 1)
        }
    }

    @Test func closedWhileItAsks() async throws {
        try await withServer(.http { _ in nil }) { server in
            let events = EventQueue<SignallingEvent>()
            let channel = try channel(server, room: "r") { events.record($0) }
            channel.open(timeout: .seconds(30))
            channel.send([1, 2, 3])
            channel.close()
            channel.close()
            channel.open(timeout: .seconds(1))
            #expect(await events.rest() == [.closed(code: nil, reason: "")])
        }
    }
}
