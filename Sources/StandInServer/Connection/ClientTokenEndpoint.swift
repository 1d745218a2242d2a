import DecartProtocol
import NIOHTTP1

/// A request for a client token, `POST …/v1/client/tokens`.
struct ClientTokenEndpoint {
    static let path = "/v1/client/tokens"
    private let isPost: Bool
    private let key: String?

    init?(_ head: HTTPRequestHead) {
        guard head.uri.prefix(while: { $0 != "?" }).hasSuffix(Self.path) else { return nil }
        isPost = head.method == .POST
        key = head.headers.first(name: "x-api-key")
    }

    private struct Body: Decodable {
        var expiresIn: Int?
        var constraints: Constraints?
    }

    private struct Constraints: Decodable {
        struct Realtime: Decodable { var maxSessionDuration: Int? }
        var realtime: Realtime?
    }

    /// Allowed models and origins are accepted, and mean nothing here.
    /// - Parameters:
    ///   - limit: session limit of tokens that request none, seconds; nil: unlimited.
    ///   - now: seconds since 1970.
    func answer(
        _ body: [UInt8], _ keys: KeyPolicy, _ tokens: ClientTokens, limit: Int? = nil, now: Int
    ) -> HTTPAnswer {
        guard isPost else { return HTTPAnswer(405, "client tokens are requested by POST") }
        guard keys.admits(key) else { return HTTPAnswer(401, "invalid api key") }
        guard key?.hasPrefix(ClientTokens.prefix) != true else {
            return HTTPAnswer(403, "permission denied: a client token makes no client tokens")
        }
        let lifetime: Int
        let duration: Int?
        do {
            let asked = body.isEmpty ? Body() : try JSONText.decode(Body.self, from: body, maximumSize: 1 << 16)
            lifetime = asked.expiresIn ?? ClientTokens.defaultLifetime
            duration = asked.constraints?.realtime?.maxSessionDuration ?? limit
        } catch {
            return HTTPAnswer(400, "the body is not a JSON object with valid fields")
        }
        guard ClientTokens.lifetimes.contains(lifetime) else {
            return HTTPAnswer(400, "expiresIn is not between 1 and 3600")
        }
        guard duration.map({ $0 > 0 }) ?? true else {
            return HTTPAnswer(400, "maxSessionDuration is not a positive number of seconds")
        }
        guard let token = tokens.token(expiry: now + lifetime, sessionLimit: duration) else {
            return HTTPAnswer(500, "internal error")
        }
        let constraints = duration.map {
            JSONValue.fields(["realtime": .fields(["maxSessionDuration": .integer($0)])])
        }
        return HTTPAnswer(
            json: .fields([
                "apiKey": .string(token), "constraints": constraints,
                "expiresAt": .string(WallClock.text(now + lifetime)),
            ]), text: "a client token")
    }
}
