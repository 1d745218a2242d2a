// An HTTP URL of the user's own backend, of a WHEP server, or of the service. `init` validates it once. Its description
// hides the query, which may hold a password.

package struct HTTPURL: Sendable, Equatable {
    /// True if the connection uses TLS.
    package let isSecure: Bool
    /// Host name or IP address, in lower case and without brackets.
    package let host: String
    package let port: Int
    /// Begins with a slash; already percent-encoded. That of the service's base URL may be empty.
    package internal(set) var path: String
    var query: String
    /// Go to the origin of this URL only.
    package private(set) var credentials: BasicCredentials?

    /// Accepts the URL of a WHEP server's endpoint (draft-ietf-wish-whep), `user:password@` before its host.
    package init(whep text: String) throws(ProtocolError) {
        try self.init(withCredentials: text, property: "source=whep:")
    }

    private init(withCredentials text: String, property: String) throws(ProtocolError) {
        let (bare, credentials) = try Self.withoutCredentials(text, property: property)
        try self.init(bare, property: property)
        self.credentials = credentials
    }

    /// Splits the user name and password off. The last "@" of the authority ends them, because a password typed without
    /// percent-encoding may contain one.
    static func withoutCredentials(
        _ text: String, property: String
    ) throws(ProtocolError) -> (String, BasicCredentials?) {
        let start = text.firstRange(of: "://")?.upperBound ?? text.endIndex
        let authority = text[start...].prefix { !"/?#".contains($0) }
        guard let at = authority.lastIndex(of: "@") else { return (text, nil) }
        guard let credentials = BasicCredentials(userInfo: authority[..<at]) else {
            throw ProtocolError(
                .invalidOptions,
                "\(property) has an unusable user name or password. Percent-encode them, as in us%3Aer:pass%40word.")
        }
        return (String(text[..<start] + text[text.index(after: at)...]), credentials)
    }

    /// Accepts the URL of the user's backend, which hands out short-lived keys: unencrypted only to loopback or with
    /// `allowInsecure`, because the key would travel in clear.
    package init(backend text: String, allowInsecure: Bool = false) throws(ProtocolError) {
        try self.init(withCredentials: text, property: "api-key-url")
        guard isSecure || isLoopback || allowInsecure else {
            throw ProtocolError(
                .invalidOptions,
                "api-key-url is unencrypted and \(host) is not this machine: the key would travel in clear. "
                    + "Use https://, or set insecure=true.")
        }
    }

    /// Throws `INVALID_OPTIONS`; the error contains no part of the URL.
    private init(_ text: String, property: String) throws(ProtocolError) {
        try self.init(parsing: text, property: property)
        if path.isEmpty { path = "/" }
    }

    /// True if a token may be sent to this URL: encrypted, or without leaving this machine.
    package var protectsToken: Bool { isSecure || isLoopback }

    package var isLoopback: Bool { Self.isLoopback(host: host) }

    package static func isLoopback(host: String) -> Bool {
        let host = host.lowercased()
        if host == "localhost" || host == "localhost." { return true }
        return HostAddress(host)?.isLoopback ?? false
    }

    package var isLocal: Bool { Self.isLocal(host: host) }

    /// True for this machine and for addresses of its link. Looks no name up.
    package static func isLocal(host: String) -> Bool { isLoopback(host: host) || HostAddress(host)?.isLocal == true }

    package var hostIsAddress: Bool { HostAddress(host) != nil }

    /// **Secret.** Path and query for the request line.
    package var requestTarget: String { query.isEmpty ? path : path + "?" + query }

    /// Value of the `Host` header: IPv6 in brackets, the port only if it is not the scheme's default.
    package var hostHeader: String {
        port == (isSecure ? 443 : 80) ? host.bracketed : "\(host.bracketed):\(port)"
    }

    /// Removes the credentials, the query and these secrets from a server's text, in case the server repeats them; nil: the
    /// text may contain one that is too short to be found.
    package func redacting(_ text: String, _ others: [Secret]) -> String? {
        let own = (credentials?.secrets ?? []) + others
        let isShown = own.map { $0.reveal() }.contains { secret in
            !secret.isEmpty && secret.utf8.count < TextRedactor.minimumSize && text.contains(secret)
        }
        return isShown ? nil : TextRedactor(secrets(others))(text)
    }

    /// **Secret.** What `redacting` removes, for a redactor that has to know more.
    package func secrets(_ others: [Secret]) -> [String] {
        let items = PercentEncoding.queryItems(ofTarget: "?" + query).map(\.value)
        return ((credentials?.secrets ?? []) + others).map { $0.reveal() } + [query] + items
    }

    /// True if a token for one URL may go to the other one (RFC 6454).
    package func hasOrigin(of other: HTTPURL) -> Bool {
        (isSecure, host, port) == (other.isSecure, other.host, other.port)
    }

    /// Resolves a `Location` header of the server against this URL (RFC 3986 §5.2).
    /// - Returns: nil if it is unusable, or would leave TLS.
    package func resolving(_ location: String) -> HTTPURL? {
        guard !location.isEmpty, !location.hasPrefix("#") else { return nil }
        let origin = "\(isSecure ? "https" : "http")://\(hostHeader)"
        let whole: String
        if let colon = location.firstIndex(of: ":"), location[..<colon].allSatisfy({ !"/?#".contains($0) }) {
            whole = location
        } else if location.hasPrefix("//") {
            whole = (isSecure ? "https:" : "http:") + location
        } else if location.hasPrefix("/") {
            whole = origin + location
        } else if location.hasPrefix("?") {
            whole = origin + path + location
        } else {
            whole = origin + path[...(path.lastIndex(of: "/") ?? path.startIndex)] + location
        }
        let bare = whole.prefix { $0 != "#" }
        let end = bare.firstIndex(of: "?") ?? bare.endIndex
        // The path begins behind the authority.
        guard let scheme = bare[..<end].firstIndex(of: ":"), bare[scheme...].hasPrefix("://") else { return nil }
        let authority = bare.index(scheme, offsetBy: 3)
        let slash = bare[authority..<end].firstIndex(of: "/") ?? end
        let text = bare[..<slash] + Self.withoutDots(bare[slash..<end]) + bare[end...]
        guard let url = try? HTTPURL(String(text), property: "Location"), url.isSecure || !isSecure else { return nil }
        return url
    }

    /// RFC 3986 §5.2.4.
    private static func withoutDots(_ path: Substring) -> String {
        var segments: [Substring] = []
        let all = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        for (index, segment) in all.enumerated() {
            let isLast = index == all.count - 1
            switch segment {
            case "..":
                _ = segments.popLast()
                if isLast { segments.append("") }
            case ".": if isLast { segments.append("") }
            default: segments.append(segment)
            }
        }
        return path.isEmpty ? "" : "/" + segments.joined(separator: "/")
    }
}

extension String {
    /// A host as it stands before a port: an IPv6 address in brackets (RFC 3986 §3.2.2).
    package var bracketed: String { contains(":") ? "[\(self)]" : self }
}

extension HTTPURL: Redacted {
    package var description: String {
        "\(isSecure ? "https" : "http")://\(hostHeader)\(path)" + (query.isEmpty ? "" : "?<redacted>")
    }
}
