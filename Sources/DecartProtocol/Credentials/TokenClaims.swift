// Reads the claims of a client token without trusting them: they determine when we announce the end of a session and
// when we end it, never what we may do. The service checks the signature and grants permissions.

/// The claim of a client token (a JSON Web Token, RFC 7519) that limits sessions; the service's own tools read the same
/// one. `exp` is another limit: how long the token can open sessions, not how long they may last.
enum TokenClaims {
    /// Seconds; nil without the claim, or if the token is not a JSON Web Token, as an opaque key (`ek_…`) is not.
    static func maximumSessionDuration(of token: String) -> Int? {
        guard token.utf8.count <= 16384 else { return nil }
        let parts = token.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64.decode(String(parts[1]), alphabet: .url) else { return nil }
        return try? JSONText.read(bytes, maximumSize: 16384) { $0.maximumSessionDuration }
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
        TokenClaims.maximumSessionDuration(of: reveal()).map { .seconds($0) }
    }
}
