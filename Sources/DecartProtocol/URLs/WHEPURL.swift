// The URL of a WHEP server's endpoint, or of a resource that the server has made. `init` validates it once. Its
// description hides the query, which may hold a password.

/// An HTTP URL of a WHEP server (draft-ietf-wish-whep).
package struct WHEPURL: Sendable, Equatable {
    package let isSecure: Bool
    /// Host name or IP address, in lower case and without brackets.
    package let host: String
    package let port: Int
    private let path: String
    private let query: String

    /// Accepts `https` and `http` URLs. Throws `INVALID_OPTIONS`; the error contains no part of the URL.
    package init(_ text: String) throws(ProtocolError) {
        do {
            self.init(
                try URLParts(text, property: "source=whep:", schemes: [("https", true), ("http", false)], reserved: []))
        } catch {
            throw ProtocolError(.invalidOptions, error.message)
        }
    }

    private init(_ parts: URLParts) {
        isSecure = parts.isSecure
        host = parts.host
        port = parts.port ?? (parts.isSecure ? 443 : 80)
        path = parts.path.isEmpty ? "/" : parts.path
        query = parts.query
    }

    /// True if a token may be sent to this URL: encrypted, or without leaving this machine.
    package var protectsToken: Bool { isSecure || ServiceURL.isLoopback(host: host) }

    package var isLoopback: Bool { ServiceURL.isLoopback(host: host) }

    /// True if the host is this machine or an address of its link.
    package var isLocal: Bool { ServiceURL.isLocal(host: host) }

    /// **Secret.** Path and query for the request line.
    package var requestTarget: String { query.isEmpty ? path : path + "?" + query }

    /// Value of the `Host` header: IPv6 in brackets, the port only if it is not the scheme's default.
    package var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// True if a token for one URL may go to the other one (RFC 6454).
    package func hasOrigin(of other: WHEPURL) -> Bool {
        (isSecure, host, port) == (other.isSecure, other.host, other.port)
    }

    /// Resolves a `Location` header of the server against this URL (RFC 3986 §5.2).
    /// - Returns: nil if it is unusable, or would leave TLS.
    package func resolving(_ location: String) -> WHEPURL? {
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
        guard
            let parts = try? URLParts(
                String(text), property: "Location", schemes: [("https", true), ("http", false)], reserved: []),
            parts.isSecure || !isSecure
        else { return nil }
        return WHEPURL(parts)
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

extension WHEPURL: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String {
        "\(isSecure ? "https" : "http")://\(hostHeader)\(path)" + (query.isEmpty ? "" : "?<redacted>")
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}
