// Room tokens: JSON Web Tokens (RFC 7519) signed with HS256, as LiveKit's own servers require. A token is a secret.
package import DecartProtocol
import MediaSecurity

/// Makes and checks the tokens of one stand-in.
package struct RoomTokens: Sendable {
    static let issuer = "decart-standin"
    /// Seconds; a client in the room receives new tokens in between.
    package static let lifetime = 600

    package struct Grant: Sendable, Equatable {
        package let room: String
        package let identity: String
        /// The token allows subscribing but not publishing.
        package let isViewer: Bool

        package init(room: String, identity: String, isViewer: Bool = false) {
            self.room = room
            self.identity = identity
            self.isViewer = isViewer
        }
    }

    private let key: [UInt8]

    package init() {
        key = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
    }

    /// - Parameter now: Seconds since 1970.
    package func token(for grant: Grant, now: Int) -> Secret? {
        let claims = Claims(
            iss: Self.issuer, sub: grant.identity, nbf: now, exp: now &+ Self.lifetime,
            video: Claims.Video(room: grant.room, roomJoin: true, canPublish: grant.isViewer ? false : nil))
        guard let body = try? JSONText.encode(claims) else { return nil }
        let text = Self.header + "." + Base64.encode(body, alphabet: .url)
        guard let signature = MessageAuthentication.sha256(key: key, message: Array(text.utf8)) else { return nil }
        return Secret(text + "." + Base64.encode(signature, alphabet: .url))
    }

    /// Returns nil if the token is not ours or not valid now.
    package func grant(in token: String, now: Int) -> Grant? {
        guard token.utf8.count <= 4096 else { return nil }
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let end = token.lastIndex(of: "."),
            let signature = Base64.decode(String(parts[2]), alphabet: .url),
            let expected = MessageAuthentication.sha256(key: key, message: Array(token[..<end].utf8)),
            MessageAuthentication.areEqual(signature, expected),
            let body = Base64.decode(String(parts[1]), alphabet: .url),
            let claims = try? JSONText.decode(Claims.self, from: body, maximumSize: 4096),
            claims.video.roomJoin, claims.nbf <= now, now < claims.exp
        else { return nil }
        return Grant(room: claims.video.room, identity: claims.sub, isViewer: claims.video.canPublish == false)
    }

    private static let header = Base64.encode(Array(#"{"alg":"HS256","typ":"JWT"}"#.utf8), alphabet: .url)

    private struct Claims: Codable {
        struct Video: Codable {
            var room: String
            var roomJoin: Bool
            /// Nil: publishing is allowed.
            var canPublish: Bool?
        }
        var iss: String
        var sub: String
        var nbf: Int
        var exp: Int
        var video: Video
    }
}
