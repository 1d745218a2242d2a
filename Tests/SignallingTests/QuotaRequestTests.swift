import DecartProtocol
import DecartSession
import Signalling
import Testing

@Suite("The account's quota", .timeLimit(.minutes(1)))
struct QuotaRequestTests {
    private static let key = "canary-quota-key"

    private func ask(
        _ head: String, _ body: String, _ check: (Result<RealtimeQuota, SessionError>, String) throws -> Void
    ) async throws {
        try await withServer(.http { _ in APIKeyFetcherTests.answer(head, body) }) { server in
            let key = try APIKey(Self.key)
            let base = try ServiceURL(base: "ws://127.0.0.1:\(server.port)/v1/stream")
            let answers = EventQueue<Result<RealtimeQuota, SessionError>>()
            AccountRequests(base: base, key: key, configuration: HTTPConfiguration(userAgent: "test")).quota(
                limit: .seconds(50)
            ) {
                answers.yield($0)
            }
            let answer = try #require(await answers.next("the quota"))
            try check(answer, server.requests.first ?? "")
        }
    }

    @Test func theNumbersAreRead() async throws {
        try await ask("200 OK", #"{"limit":3,"active":1,"remaining":2}"#) { answer, request in
            let quota = try answer.get()
            #expect(quota.limit == 3 && quota.active == 1 && quota.remaining == 2)
            #expect(request.hasPrefix("GET /v1/realtime/quota HTTP/1.1\r\n"))
            #expect(RawServer.header("X-API-KEY", in: request) == Self.key)
        }
    }

    @Test(
        arguments: [
            ("404 Not Found", #"{"detail":"Not Found"}"#, 404, DecartErrorCode.webSocket),
            // As the service answers a wrong key here.
            ("401 Unauthorized", #"{"detail":"Invalid API key"}"#, 401, .invalidAPIKey),
            ("200 OK", "<html>", nil, .server),
            ("200 OK", "{}", nil, .server), ("500 Oops", "", 500, .server),
        ] as [(String, String, Int?, DecartErrorCode)])
    func otherAnswers(head: String, body: String, status: Int?, code: DecartErrorCode) async throws {
        try await ask(head, body) { answer, _ in
            guard case .failure(let error) = answer else {
                Issue.record("a quota: \(answer)")
                return
            }
            #expect(error.httpStatus == status && error.code == code && !error.message.contains("canary"), "\(error)")
        }
    }
}
