// Reads the claims of a client token without trusting them: they determine when we announce the end of a session, when we
// end it, and that a token which has expired is not sent. The service checks the signature and grants permissions.

/// The claims of a client token (a JSON Web Token, RFC 7519); the service's own tools read the same ones.
struct TokenClaims {
    /// `exp`: how long the token can open sessions, in seconds since 1970; nil without the claim.
    let expiry: Double?
    /// Longest session, in seconds; nil without the claim.
    let maximumSessionDuration: Int?

    /// Returns nil if the token is not a JSON Web Token, as an opaque key (`ek_…`) is not.
    init?(of token: String) {
        guard token.utf8.count <= 16384 else { return nil }
        let parts = token.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64.decode(String(parts[1]), alphabet: .url),
            let claims = try? JSONText.read(
                bytes, maximumSize: 16384, { ($0.number("exp"), $0.maximumSessionDuration) })
        else { return nil }
        (expiry, maximumSessionDuration) = claims
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
    /// The clocks of two machines may differ by that much, in seconds.
    private static let clockTolerance = 5.0

    /// Longest session that the key permits; nil if it has no such claim.
    package var sessionLimit: Duration? {
        TokenClaims(of: reveal())?.maximumSessionDuration.map { .seconds($0) }
    }

    /// How long ago the key has expired, in seconds; nil if it has not, or if it has no such claim.
    /// - Parameter now: seconds since 1970.
    package func secondsSinceExpiry(now: Double) -> Int? {
        guard let expiry = TokenClaims(of: reveal())?.expiry, now - expiry > Self.clockTolerance else { return nil }
        return Int(min(now - expiry, 1e12))
    }
}
