import DecartProtocol
import MediaSecurity
import NIOHTTP1

/// The client tokens of one stand-in: `ek_EXPIRY_NONCE.SIGNATURE`, or `ek_EXPIRY-LIMIT_NONCE.SIGNATURE` with a session
/// limit, signed, so that nothing has to be stored.
package struct ClientTokens: Sendable {
    package static let prefix = "ek_"
    /// Seconds, as the service documents them.
    static let lifetimes = 1...3600
    static let defaultLifetime = 60

    private let key: [UInt8]

    package init() { key = (0..<32).map { _ in UInt8.random(in: .min ... .max) } }

    /// - Parameters:
    ///   - expiry: seconds since 1970.
    ///   - sessionLimit: longest session that the token permits, seconds; nil: unlimited.
    package func token(expiry: Int, sessionLimit: Int? = nil) -> String? {
        let nonce = (0..<12).map { _ in UInt8.random(in: .min ... .max) }
        let limit = sessionLimit.map { "-" + String($0, radix: 36) } ?? ""
        let text = Self.prefix + String(expiry, radix: 36) + limit + "_" + Base64.encode(nonce, alphabet: .url)
        return signature(of: text).map { text + "." + Base64.encode($0, alphabet: .url) }
    }

    /// Returns nil for a key that is not a token of this stand-in, else true until it expires.
    package func admits(_ token: String, now: Int) -> Bool? { claims(of: token).map { now < $0.expiry } }

    /// Seconds that a session with this key may last; nil: unlimited.
    func sessionLimit(of token: String) -> Int? { claims(of: token)?.sessionLimit }

    private func claims(of token: String) -> (expiry: Int, sessionLimit: Int?)? {
        guard token.utf8.count <= 256, token.hasPrefix(Self.prefix), let end = token.lastIndex(of: "."),
            let given = Base64.decode(String(token[token.index(after: end)...]), alphabet: .url),
            let expected = signature(of: String(token[..<end])), MessageAuthentication.areEqual(given, expected),
            case let numbers = token.dropFirst(Self.prefix.count).prefix(while: { $0 != "_" }).split(separator: "-"),
            let expiry = numbers.first.flatMap({ Int($0, radix: 36) })
        else { return nil }
        return (expiry, numbers.dropFirst().first.flatMap { Int($0, radix: 36) })
    }

    private func signature(of text: String) -> [UInt8]? {
        MessageAuthentication.sha256(key: key, message: [UInt8](text.utf8))
    }
}

/// A request for a client token, `POST …/v1/client/tokens`.
struct ClientTokenRequest {
    static let path = "/v1/client/tokens"
    private let isPost: Bool
    private let key: String?

    /// Returns nil for any other request.
    init?(_ head: HTTPRequestHead) {
        guard head.uri.prefix(while: { $0 != "?" }).hasSuffix(Self.path) else { return nil }
        isPost = head.method == .POST
        key = head.headers.first(name: "x-api-key")
    }

    private struct Body: Decodable {
        var expiresIn: Int?
        var constraints: Constraints?
    }

    private struct Constraints: Codable {
        struct Realtime: Codable { var maxSessionDuration: Int? }
        var realtime: Realtime?
    }

    private struct Answer: Encodable {
        var apiKey: String
        var expiresAt: String
        var constraints: Constraints?
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
        let constraints = duration.map { Constraints(realtime: .init(maxSessionDuration: $0)) }
        guard let token = tokens.token(expiry: now + lifetime, sessionLimit: duration),
            let text = try? JSONText.encode(
                Answer(apiKey: token, expiresAt: WallClock.text(now + lifetime), constraints: constraints))
        else { return HTTPAnswer(500, "internal error") }
        var answer = HTTPAnswer(200, "a client token")
        answer.contentType = "application/json"
        answer.body = String(decoding: text, as: UTF8.self)
        return answer
    }
}
