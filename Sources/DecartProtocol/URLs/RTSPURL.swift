/// URL of an RTSP camera (RFC 2326 3.2), with the schemes of GStreamer that choose a transport. Its description hides the
/// user name, the password and the query.
package struct RTSPURL: Sendable, Equatable {
    private static let schemes: [(name: String, isSecure: Bool)] = [
        ("rtsp", false), ("rtsps", true), ("rtspt", false), ("rtspst", true), ("rtspu", false),
        ("rtspsu", true),
    ]

    /// GStreamer's, with TLS too.
    private static let defaultPort = 554

    /// **Secret**, because a camera may take its password in the query. It has no user name and no password.
    package let location: Secret
    package let credentials: BasicCredentials?
    /// RTP over UDP (`rtspu`); otherwise over the connection of RTSP, which loses nothing and passes firewalls.
    package let usesUDP: Bool
    private let http: HTTPURL

    /// True if the text has one of the schemes.
    package static func isRTSP(_ text: String) -> Bool {
        schemes.contains { text.lowercased().hasPrefix($0.name + "://") }
    }

    /// Throws `INVALID_OPTIONS`; the error contains no part of the URL.
    package init(_ text: String) throws(ProtocolError) {
        let bare: String
        (bare, credentials) = try HTTPURL.withoutCredentials(text, property: "source=rtsp:")
        http = try HTTPURL(
            parsing: bare, property: "source=rtsp:", schemes: Self.schemes, ports: (Self.defaultPort, Self.defaultPort))
        location = Secret(bare)
        usesUDP = bare.prefix { $0 != ":" }.lowercased().hasSuffix("u")
    }

    package var host: String { http.host }
    package var isSecure: Bool { http.isSecure }
    var isLocal: Bool { http.isLocal }

    /// True if the credentials of one URL may go to the other one.
    func hasOrigin(of other: RTSPURL) -> Bool { http.hasOrigin(of: other.http) }

    /// **Secret.** What `redacting` removes.
    package var secrets: [String] { http.secrets(credentials?.secrets ?? []) }

    /// Removes the credentials and the query from a text, in which the camera may repeat them.
    package func redacting(_ text: String) -> String {
        http.redacting(text, credentials?.secrets ?? []) ?? TextRedactor.mark
    }
}

extension RTSPURL: Redacted {}
