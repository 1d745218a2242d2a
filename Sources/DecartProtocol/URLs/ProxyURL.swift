// The URL of an HTTP proxy. `init` validates it once. Its description hides user name and password.

/// An HTTP proxy that opens tunnels with CONNECT (RFC 9110 §9.3.6).
package struct ProxyURL: Sendable, Equatable {
    /// Host name or IP address, in lower case and without brackets.
    package let host: String
    package let port: Int
    /// **Secret.** Value of `Proxy-Authorization`, for Basic authentication (RFC 7617); nil without a user name.
    package let authorization: Secret?

    /// **Secret.** The texts by which the credentials are known: a proxy may repeat them in its answer.
    package let secrets: [Secret]

    /// Accepts `http://[user:password@]host[:port]`, user name and password percent-encoded. Throws `INVALID_OPTIONS`,
    /// without any part of the text.
    package init(_ text: String) throws(ProtocolError) {
        func refuse(_ reason: String) -> ProtocolError { ProtocolError(.invalidOptions, "http-proxy \(reason)") }

        let scheme = "http://"
        guard text.prefix(scheme.count).lowercased() == scheme else {
            throw refuse("must begin with http://, as http://user:password@proxy.example:3128.")
        }
        var rest = text.dropFirst(scheme.count)
        var credentials: BasicCredentials?
        // The last "@" ends the user part, because a password typed without percent-encoding may contain one.
        if let at = rest.lastIndex(of: "@") {
            credentials = BasicCredentials(userInfo: rest[..<at])
            rest = rest[rest.index(after: at)...]
            guard credentials != nil else {
                throw refuse("has an unusable user name or password. Percent-encode them, as in us%3Aer:pass%40word.")
            }
        }
        let url = try HTTPURL(parsing: scheme + rest, property: "http-proxy", schemes: [("http", false)])
        guard url.path.isEmpty || url.path == "/", url.query.isEmpty else {
            throw refuse("must not have a path or a query.")
        }
        (host, port) = (url.host, url.port)
        (authorization, secrets) = (credentials?.authorization, credentials?.secrets ?? [])
    }

    /// The proxy's own loopback addresses are not this machine's, so those of this machine are reached without it.
    package func applies(to host: String) -> Bool { !HTTPURL.isLoopback(host: host) }

    /// "proxy.example:3128", for messages.
    package var place: String { "\(host.bracketed):\(port)" }
}

extension ProxyURL: Redacted {
    package var description: String { "http://\(authorization == nil ? "" : "<redacted>@")\(place)" }
}
