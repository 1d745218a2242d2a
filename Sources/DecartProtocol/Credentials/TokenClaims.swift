// Reads the claims of a client token without trusting them: they determine when we announce the end of a session and
// when we end it, never what we may do. The service checks the signature and grants permissions.

/// The claim of a client token (a JSON Web Token, RFC 7519) that limits sessions; the service's own tools read the same
/// one. `exp` is another limit: how long the token can open sessions, not how long they may last.
struct TokenClaims: Decodable, Equatable {
    /// Seconds.
    let maximumSessionDuration: Int?

    /// Returns nil if the token is not a JSON Web Token, as an opaque key (`ek_…`) is not.
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
    /// Reads `constraints: {realtime: {maxSessionDuration}}`, in seconds: the form that the token endpoint accepts,
    /// returns and signs into its tokens. nil unless it is a positive whole number.
    var maximumSessionDuration: Int? {
        let realtime = try? nestedContainer(keyedBy: WireKey.self, forKey: "constraints")
            .nestedContainer(keyedBy: WireKey.self, forKey: "realtime")
        guard let seconds = realtime?.integer("maxSessionDuration"), seconds > 0 else { return nil }
        return min(seconds, 1_000_000_000)
    }
}

extension APIKey {
    /// Longest session that the key permits; nil if it has no such claim.
    package var sessionLimit: Duration? {
        TokenClaims(token: reveal())?.maximumSessionDuration.map { .seconds($0) }
    }
}
