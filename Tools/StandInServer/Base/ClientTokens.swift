import DecartProtocol
import MediaSecurity

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
