/// What a user's backend hands out: a short-lived key, and until when it is good.
package struct ClientToken: Sendable, Equatable {
    /// No more than this is read.
    package static let maximumSize = 64 << 10

    package let key: APIKey
    /// As the backend says it, most often RFC 3339; nil: not said.
    package let expiresAt: String?
    /// How long a session with this key may last; nil: not said.
    package let sessionLimit: Duration?

    /// From `{"apiKey": …, "expiresAt": …}`, and what the service's token endpoint says beside them, where the backend
    /// hands that on: `constraints`, or the `token` that has them signed into it. Throws without quoting anything of it.
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
            guard let key = container.text("apiKey", "api_key") else {
                throw ProtocolError(.server, "A message is malformed: apiKey is missing.")
            }
            self.key = key
            expiresAt = container.text("expiresAt", "expires_at")
            token = container.text("token")
            maximumSessionDuration = container.maximumSessionDuration
        }
    }
}
