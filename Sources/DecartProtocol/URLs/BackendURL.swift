// The URL of the user's own backend, which hands out short-lived keys. `init` validates it once. Its description hides
// the query, which may hold a password.

/// An HTTP URL of the user's backend.
package struct BackendURL: Sendable, Equatable {
    package let isSecure: Bool
    /// Host name or IP address, in lower case and without brackets.
    package let host: String
    package let port: Int
    private let path: String
    private let query: String

    /// Accepts `https` URLs, and `http` only to loopback or with `allowInsecure`, because the key would travel in
    /// clear. Throws `INVALID_OPTIONS`.
    package init(_ text: String, allowInsecure: Bool = false) throws(ProtocolError) {
        let parts: URLParts
        do {
            parts = try URLParts(
                text, property: "api-key-url", schemes: [("https", true), ("http", false)], reserved: [])
        } catch {
            throw ProtocolError(.invalidOptions, error.message)
        }
        isSecure = parts.isSecure
        host = parts.host
        port = parts.port ?? (parts.isSecure ? 443 : 80)
        path = parts.path.isEmpty ? "/" : parts.path
        query = parts.query
        guard isSecure || ServiceURL.isLoopback(host: host) || allowInsecure else {
            throw ProtocolError(
                .invalidOptions,
                "api-key-url is unencrypted and \(host) is not this machine: the key would travel in clear. "
                    + "Use https://, or set insecure=true.")
        }
    }

    /// True if the host is an IP address, for which TLS sends no server name (RFC 6066 §3).
    package var hostIsAddress: Bool { HostAddress(host) != nil }

    /// **Secret.** Path and query for the request line.
    package var requestTarget: String { query.isEmpty ? path : path + "?" + query }

    /// Value of the `Host` header: IPv6 in brackets, the port only if it is not the scheme's default.
    package var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }
}

extension BackendURL: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String {
        "\(isSecure ? "https" : "http")://\(hostHeader)\(path)" + (query.isEmpty ? "" : "?<redacted>")
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}
