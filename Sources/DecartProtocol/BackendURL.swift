// Where the user's own backend hands out short-lived keys, checked once. Its query may well hold a password of the
// user's: a `BackendURL` describes itself without it.

/// An HTTP URL of the user's backend.
package struct BackendURL: Sendable, Equatable {
    package let isSecure: Bool
    /// A name or an address, without brackets, in lower case.
    package let host: String
    package let port: Int
    private let path: String
    private let query: String

    /// `https` URLs; `http` ones only to loopback, for the key would travel in clear, unless the user insists. Throws
    /// `INVALID_OPTIONS`.
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

    /// The host is an address, not a name: TLS sends no server name for it.
    package var hostIsAddress: Bool { IPAddress(host) != nil }

    /// **Secret.** Path and query for the request line.
    package var requestTarget: String { query.isEmpty ? path : path + "?" + query }

    /// For the `Host` header: brackets round IPv6, the port unless it is the scheme's.
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
