import DecartProtocol
import NIOHTTP1

/// A request for the account's quota, `GET …/v1/realtime/quota`.
struct QuotaEndpoint {
    private let isGet: Bool
    private let key: String?

    init?(_ head: HTTPRequestHead) {
        guard head.uri.prefix(while: { $0 != "?" }).hasSuffix("/v1/realtime/quota") else { return nil }
        isGet = head.method == .GET
        key = head.headers.first(name: "x-api-key")
    }

    func answer(_ keys: KeyPolicy, limit: Int?, active: Int) -> HTTPAnswer {
        guard isGet else { return HTTPAnswer(405, "the quota is requested by GET") }
        guard keys.admits(key) else { return HTTPAnswer(401, detail: "Invalid API key") }
        // Null without a limit: `RealtimeQuotaResponse` of the service's OpenAPI file.
        return HTTPAnswer(
            json: .fields([
                "limit": .optional(limit), "active": .integer(active),
                "remaining": .optional(limit.map { max($0 - active, 0) }),
            ]))
    }
}
