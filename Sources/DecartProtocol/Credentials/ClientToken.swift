/// A short-lived key from the user's backend, and its expiry.
package struct ClientToken: Sendable, Equatable {
    /// Largest response body that is read, in bytes.
    package static let maximumSize = 64 << 10

    package let key: APIKey
    /// The backend's own text, usually RFC 3339; nil if absent.
    package let expiresAt: String?
    /// Longest session that the key permits; nil if unknown.
    package let sessionLimit: Duration?

    /// Decodes `{"apiKey": …, "expiresAt": …}`, or `{"token": …}` with a JSON Web Token. The session limit comes from what the backend may pass on of the
    /// service's own token response: `constraints`, or else the claims of `token` or of the key itself. Errors
    /// quote nothing of the text.
    package init(decoding bytes: [UInt8]) throws(ProtocolError) {
        let fields = try JSONText.decode(Fields.self, from: bytes, maximumSize: Self.maximumSize)
        key = try APIKey(fields.key)
        expiresAt = fields.expiresAt
        sessionLimit =
            fields.maximumSessionDuration.map { .seconds($0) }
            ?? fields.token.flatMap { TokenClaims(token: $0)?.maximumSessionDuration }.map { .seconds($0) }
            ?? key.sessionLimit
    }

    private struct Fields: Decodable {
        let key: String
        let expiresAt: String?
        let token: String?
        let maximumSessionDuration: Int?

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: WireKey.self)
            guard let key = container.text("apiKey", "api_key", "token") else {
                throw ProtocolError(.server, "A message is malformed: apiKey and token are missing.")
            }
            self.key = key
            expiresAt = container.text("expiresAt", "expires_at")
            token = container.text("token")
            maximumSessionDuration = container.maximumSessionDuration
        }
    }
}
