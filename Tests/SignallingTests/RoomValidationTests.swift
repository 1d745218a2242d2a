import DecartProtocol
import Signalling
import Testing

@Suite("The reason of a room that refuses a connection", .timeLimit(.minutes(1)))
struct RoomValidationTests {
    private static let token = "canary-room-token"

    private func ask(
        _ response: String, _ check: (_ reason: String?, _ request: String) -> Void
    ) async throws {
        try await withServer(.http { _ in Array(response.utf8) }) { server in
            let url = try ServiceURL(
                room: "ws://127.0.0.1:\(server.port)/base", token: try APIKey(Self.token),
                options: [("protocol", "16")])
            let answers = EventQueue<String?>()
            RoomValidation.reason(refusing: url, configuration: HTTPConfiguration(userAgent: "test")) {
                answers.yield($0)
            }
            check(try #require(await answers.next("the reason")), server.requests.first ?? "")
        }
    }

    private static func text(_ status: String, _ body: String) -> String {
        "HTTP/1.1 \(status)\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test func theSameQueryIsJudged() async throws {
        try await ask(Self.text("404 Not Found", "requested room does not exist\n")) { reason, request in
            #expect(reason == "requested room does not exist")
            #expect(request.hasPrefix("GET /base/rtc/validate?protocol=16 HTTP/1.1\r\n"), "\(request)")
            #expect(RawServer.header("Authorization", in: request) == "Bearer \(Self.token)")
        }
    }

    /// A name that led elsewhere before: the token does not reach a server of this machine.
    @Test func thisMachineIsNotAsked() async throws {
        try await withServer(.http { _ in Array(Self.text("404 Not Found", "no room").utf8) }) { server in
            for host in ["127.0.0.1", "localhost"] {
                let url = try ServiceURL(
                    room: "ws://\(host):\(server.port)", token: try APIKey(Self.token), options: [])
                let answers = EventQueue<String?>()
                RoomValidation.reason(
                    refusing: url, refusesLocal: true, configuration: HTTPConfiguration(userAgent: "test")
                ) { answers.yield($0) }
                let reason = try #require(await answers.next("the end"))
                #expect(reason == nil && server.requests.isEmpty)
            }
        }
    }

    /// A server that would take the connection now, one that repeats our token, and what is no text or too long.
    @Test(
        arguments: [
            (text("200 OK", "success"), nil), (text("401 Unauthorized", ""), nil),
            (text("401 Unauthorized", "bad canary-room-token"), "bad <redacted>"),
            ("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", nil),
            (text("400 Bad Request", String(repeating: "a", count: 5000)), nil),
        ] as [(String, String?)])
    func otherAnswers(response: String, reason: String?) async throws {
        try await ask(response) { answered, _ in #expect(answered == reason) }
    }
}
