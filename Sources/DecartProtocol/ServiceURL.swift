// Where the service is, checked once, and the request made from it. The API key is part of the query: a `ServiceURL`
// describes itself without it, and nothing here opens a connection.

/// A WebSocket URL of the service. Built from the user's base URL; whole after `stream(…)` or `subscribe(…)`.
package struct ServiceURL: Sendable, Equatable {
    package static let defaultBase = "wss://api.decart.ai"

    /// TLS is used.
    package let isSecure: Bool
    /// A name or an address, without brackets, in lower case.
    package let host: String
    package let port: Int
    /// Begins with a slash; already percent-encoded.
    package private(set) var path: String
    private var query: String
    /// As it is in the query, to be found in a peer's words.
    private var key: APIKey?
    /// It leads to a session that is there, or to nothing.
    package private(set) var isForViewers = false
    /// **Secret.** For the `Authorization` header.
    package private(set) var bearer: APIKey?

    /// `wss`, `ws`, `https` and `http` URLs. Unencrypted ones only to loopback, for the key would travel in clear,
    /// unless the user insists. Throws `INVALID_BASE_URL`.
    package init(base: String, allowInsecure: Bool = false) throws(ProtocolError) {
        try self.init(base, property: "base-url", allowInsecure: allowInsecure)
    }

    /// The signalling of a LiveKit room: `path` is appended to the URL's, which may have its `/rtc`; the token goes into a
    /// header.
    package init(
        room: String, path: String = "/rtc", token: APIKey, allowInsecure: Bool = false,
        options: [(name: String, value: String)] = []
    ) throws(ProtocolError) {
        var base = try ServiceURL(room, property: "livekit_url", allowInsecure: allowInsecure)
        if base.path.hasSuffix("/rtc") { base.path.removeLast(4) }
        self = base.appending(path: path, items: options, key: token)
        bearer = token
    }

    private init(_ text: String, property: String, allowInsecure: Bool) throws(ProtocolError) {
        let parts = try URLParts(text, property: property)
        isSecure = parts.isSecure
        host = parts.host
        port = parts.port ?? (parts.isSecure ? 443 : 80)
        path = parts.path
        query = parts.query
        guard isSecure || isLoopback || allowInsecure else {
            throw ProtocolError(
                .invalidBaseURL,
                "\(property) is unencrypted and \(host) is not this machine: "
                    + "\(property == "base-url" ? "the API key" : "the room's token") would travel in clear. "
                    + "Use wss://, or set insecure=true.")
        }
    }

    /// The control channel of a session.
    /// - Parameter options: further query items, such as `resolution`; values may hold anything.
    package func stream(
        key: APIKey?, model: DecartModel, options: [(name: String, value: String)] = []
    ) -> ServiceURL {
        var items: [(name: String, value: String)] = []
        if let key { items.append(("api_key", key.reveal())) }
        items.append(("model", model.name))
        return appending(path: DecartModel.urlPath, items: items + options, key: key)
    }

    /// The control channel of a viewer, generation 1.
    package func subscribe(
        key: APIKey?, sid: String, ip: String, port: Int, options: [(name: String, value: String)] = []
    ) -> ServiceURL {
        var items: [(name: String, value: String)] = [("IP", ip), ("port", String(port))]
        if let key { items.append(("api_key", key.reveal())) }
        return viewing(path: "/subscribe/" + PercentEncoding.encode(sid), items: items + options, key: key)
    }

    /// Where a viewer asks for a room, generation 2; the key goes into a header of the request.
    package func watchStream(key: APIKey, room: String) -> ServiceURL {
        viewing(path: "/watch-stream/" + PercentEncoding.encode(room), items: [], key: key)
    }

    private func viewing(path: String, items: [(name: String, value: String)], key: APIKey?) -> ServiceURL {
        var url = appending(path: path, items: items, key: key)
        url.isForViewers = true
        return url
    }

    /// How long the key lets a session last, where it says so.
    package var sessionLimit: Duration? { key?.sessionLimit }

    /// The service runs on this machine.
    package var isLoopback: Bool { ServiceURL.isLoopback(host: host) }

    package static func isLoopback(host: String) -> Bool {
        let host = host.lowercased()
        if host == "localhost" || host == "localhost." { return true }
        return IPAddress(host)?.isLoopback ?? false
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

    /// A peer's words without our key, should the peer repeat it. Keys too short to be one are left alone: they would
    /// be found in any text.
    package func redacting(_ words: String) -> String {
        guard let key = key?.reveal(), key.utf8.count >= 8 else { return words }
        return words.replacing(key, with: "<redacted>").replacing(PercentEncoding.encode(key), with: "<redacted>")
    }

    private func appending(path suffix: String, items: [(name: String, value: String)], key: APIKey?) -> ServiceURL {
        var copy = self
        copy.key = key
        if !copy.path.hasSuffix(suffix) {
            while copy.path.hasSuffix("/") { copy.path.removeLast() }
            copy.path += suffix
        }
        let added = items.map { PercentEncoding.encode($0.name) + "=" + PercentEncoding.encode($0.value) }
        copy.query = ((query.isEmpty ? [] : [query]) + added).joined(separator: "&")
        return copy
    }
}

extension ServiceURL: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Scheme, host, port and path: the query holds the key and is hidden.
    package var description: String {
        "\(isSecure ? "wss" : "ws")://\(hostHeader)\(path)" + (query.isEmpty ? "" : "?<redacted>")
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}
