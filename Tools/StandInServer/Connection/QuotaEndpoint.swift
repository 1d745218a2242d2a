import DecartProtocol
import Network

/// Requests for the account's quota, `GET …/v1/realtime/quota`.
enum QuotaEndpoint {
    /// Returns nil for another path.
    static func answer(_ head: HTTPRequestHead, _ keys: KeyPolicy, limit: Int?, active: Int) -> HTTPAnswer? {
        guard head.path.hasSuffix("/v1/realtime/quota") else { return nil }
        guard head.method == "GET" else { return HTTPAnswer(405, "the quota is requested by GET") }
        guard keys.admits(head.apiKey) else { return HTTPAnswer(401, detail: "Invalid API key") }
        // Null without a limit: `RealtimeQuotaResponse` of the service's OpenAPI file.
        return HTTPAnswer(
            json: .fields([
                "limit": .optional(limit), "active": .integer(active),
                "remaining": .optional(limit.map { max($0 - active, 0) }),
            ]))
    }
}
