import DecartProtocol
import Network

/// Requests for a client token, `POST …/v1/client/tokens`.
enum ClientTokenEndpoint {
    private struct Body: Decodable {
        var expiresIn: Int?
        var constraints: Constraints?
    }

    private struct Constraints: Decodable {
        struct Realtime: Decodable { var maxSessionDuration: Int? }
        var realtime: Realtime?
    }

    /// Returns nil for another path. Allowed models and origins are accepted, and mean nothing here.
    /// - Parameters:
    ///   - limit: session limit of tokens that request none, seconds; nil: unlimited.
    ///   - now: seconds since 1970.
    static func answer(
        _ head: HTTPRequestHead, _ body: [UInt8], _ keys: KeyPolicy, _ tokens: ClientTokens, limit: Int?, now: Int
    ) -> HTTPAnswer? {
        guard head.path.hasSuffix("/v1/client/tokens") else { return nil }
        guard head.method == "POST" else { return HTTPAnswer(405, "client tokens are requested by POST") }
        guard keys.admits(head.apiKey) else { return HTTPAnswer(401, "invalid api key") }
        guard head.apiKey?.hasPrefix(ClientTokens.prefix) != true else {
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
