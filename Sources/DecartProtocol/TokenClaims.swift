// What a token says of itself, read without any trust: it decides when we announce an end, never what we may do. Who may do
// what is the service's to say, which checks the signature.

/// The part of a client token's claims that concerns a session (a JSON Web Token, RFC 7519). The service's own tools read
/// the same claim; `exp` says how long the token opens sessions, not how long those may last.
struct TokenClaims: Decodable, Equatable {
    /// Seconds.
    let maximumSessionDuration: Int?

    /// Nil: no such token. An opaque key (`ek_…`) is none.
    init?(token: String) {
        guard token.utf8.count <= 16384 else { return nil }
        let parts = token.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64.decode(String(parts[1]), alphabet: .url),
            let claims = try? JSONText.decode(TokenClaims.self, from: bytes, maximumSize: 16384)
        else { return nil }
        self = claims
    }

    init(from decoder: any Decoder) throws {
        maximumSessionDuration = try decoder.container(keyedBy: WireKey.self).maximumSessionDuration
    }
}

extension KeyedDecodingContainer<WireKey> {
    /// `constraints: {realtime: {maxSessionDuration}}`, in seconds, as the token endpoint takes it, answers it, and signs
    /// it into its tokens. Nothing that is no time counts.
    var maximumSessionDuration: Int? {
        let realtime = try? nestedContainer(keyedBy: WireKey.self, forKey: "constraints")
            .nestedContainer(keyedBy: WireKey.self, forKey: "realtime")
        guard let seconds = realtime?.integer("maxSessionDuration"), seconds > 0 else { return nil }
        return min(seconds, 1_000_000_000)
    }
}

extension APIKey {
    /// How long it lets a session last; nil: it does not say.
    package var sessionLimit: Duration? {
        TokenClaims(token: reveal())?.maximumSessionDuration.map { .seconds($0) }
    }
}
