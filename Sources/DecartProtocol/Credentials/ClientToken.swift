/// A short-lived key from the user's backend, and its expiry.
package struct ClientToken: Sendable, Equatable {
    /// Largest response body that is read, in bytes.
    package static let maximumSize = 64 << 10

    package let key: APIKey
    /// The backend's own text, usually RFC 3339; nil if absent.
    package let expiresAt: String?
    /// Longest session that the key permits; nil if unknown.
    package let sessionLimit: Duration?

    /// Decodes `{"apiKey": …, "expiresAt": …}`, or `{"token": …}` with a JSON Web Token. The session limit comes from what
    /// the backend may pass on of the service's own token response: `constraints`, or else the claims of `token` or of
    /// the key itself. Errors quote nothing of the text.
    package init(decoding bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.read(bytes, maximumSize: Self.maximumSize) { try ClientToken($0) }
    }

    private init(_ container: KeyedDecodingContainer<WireKey>) throws {
        guard let text = container.text("apiKey", "api_key", "token") else {
            throw ProtocolError(.server, "A message is malformed: apiKey and token are missing.")
        }
        key = try APIKey(text)
        expiresAt = container.text("expiresAt", "expires_at")
        let claims = container.text("token").flatMap { TokenClaims(of: $0)?.maximumSessionDuration }
        let seconds = container.maximumSessionDuration ?? claims
        sessionLimit = seconds.map { .seconds($0) } ?? key.sessionLimit
    }
}
