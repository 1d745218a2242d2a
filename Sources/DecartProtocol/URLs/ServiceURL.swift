// Validates the service's base URL once and builds request URLs from it. The API key is part of the query, so the
// description of a `ServiceURL` hides the query. Opens no connection.

/// A WebSocket URL of the service, built from the user's base URL; complete after `stream`, `subscribe` or
/// `watchStream`.
package struct ServiceURL: Sendable, Equatable {
    package static let defaultBase = "wss://api.decart.ai"

    /// True if the connection uses TLS.
    package let isSecure: Bool
    /// Host name or IP address, in lower case and without brackets.
    package let host: String
    package let port: Int
    /// Empty or begins with a slash; already percent-encoded.
    package private(set) var path: String
    private var query: String
    /// The key or token of this request, which `redacting` removes from a peer's text.
    private var key: APIKey?
    /// True for a viewer's URL: it names a session that must exist already, so HTTP 404 means that the session is gone.
    package private(set) var isForViewers = false
    /// **Secret.** Token for the `Authorization` header.
    package private(set) var bearer: APIKey?

    /// Accepts `wss`, `ws`, `https` and `http`; unencrypted ones only to loopback or with `allowInsecure`, because the
    /// key would travel in clear. Throws `INVALID_BASE_URL`.
    package init(base: String, allowInsecure: Bool = false) throws(ProtocolError) {
        try self.init(base, property: "base-url", allowInsecure: allowInsecure)
    }

    /// Makes the signalling URL of a LiveKit room: drops a trailing `/rtc` of the room's URL and appends `path`. The
    /// token goes into a header.
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
                "\(property) is unencrypted and \(host) is another machine: "
                    + "\(property == "base-url" ? "the API key" : "the room's token") could be read on the network. "
                    + "Use wss://, or set insecure=true.")
        }
    }

    /// Makes the URL of a session's control channel.
    /// - Parameter options: further query items, such as `resolution`, not yet percent-encoded.
    package func stream(
        key: APIKey?, model: DecartModel, options: [(name: String, value: String)] = []
    ) -> ServiceURL {
        var items: [(name: String, value: String)] = []
        if let key { items.append(("api_key", key.reveal())) }
        items.append(("model", model.name))
        return appending(path: DecartModel.urlPath, items: items + options, key: key)
    }

    /// Makes the URL of a viewer's control channel, generation 1.
    package func subscribe(
        key: APIKey?, sid: String, ip: String, port: Int, options: [(name: String, value: String)] = []
    ) -> ServiceURL {
        var items: [(name: String, value: String)] = [("IP", ip), ("port", String(port))]
        if let key { items.append(("api_key", key.reveal())) }
        return viewing(path: "/subscribe/" + PercentEncoding.encode(sid), items: items + options, key: key)
    }

    /// Makes the URL where a viewer requests its room, generation 2; the key goes into a header of the request.
    package func watchStream(
        key: APIKey, room: String, options: [(name: String, value: String)] = []
    ) -> ServiceURL {
        viewing(path: "/watch-stream/" + PercentEncoding.encode(room), items: options, key: key)
    }

    /// Makes the URL where a permanent key gets client tokens; the key goes into a header of the request.
    package func clientTokens(key: APIKey) -> ServiceURL { request("/v1/client/tokens", key) }

    /// Makes the URL of the account's quota; the key goes into a header of the request.
    package func realtimeQuota(key: APIKey) -> ServiceURL { request("/v1/realtime/quota", key) }

    private func request(_ path: String, _ key: APIKey) -> ServiceURL {
        var base = self
        if base.path.hasSuffix(DecartModel.urlPath) { base.path.removeLast(DecartModel.urlPath.count) }
        return base.appending(path: path, items: [], key: key)
    }

    private func viewing(path: String, items: [(name: String, value: String)], key: APIKey?) -> ServiceURL {
        var url = appending(path: path, items: items, key: key)
        url.isForViewers = true
        return url
    }

    /// Longest session that the key permits; nil if the key has no such claim.
    package var sessionLimit: Duration? { key?.sessionLimit }

    /// True if the service runs on this machine.
    package var isLoopback: Bool { ServiceURL.isLoopback(host: host) }

    package static func isLoopback(host: String) -> Bool {
        let host = host.lowercased()
        if host == "localhost" || host == "localhost." { return true }
        return HostAddress(host)?.isLoopback ?? false
    }

    /// True for this machine and for addresses of its link. Looks no name up.
    package static func isLocal(host: String) -> Bool { isLoopback(host: host) || HostAddress(host)?.isLocal == true }

    /// True if the host is an IP address, for which TLS sends no server name (RFC 6066 §3).
    package var hostIsAddress: Bool { HostAddress(host) != nil }

    /// **Secret.** Path and query for the request line.
    package var requestTarget: String { query.isEmpty ? path : path + "?" + query }

    /// Value of the `Host` header: IPv6 in brackets, the port only if it is not the scheme's default.
    package var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// Removes our key from a peer's text, in case the peer repeats it. Keys of less than 8 bytes stay, because they
    /// could occur in any text.
    package func redacting(_ text: String) -> String {
        guard let key = key?.reveal(), key.utf8.count >= 8 else { return text }
        return text.replacing(key, with: "<redacted>").replacing(PercentEncoding.encode(key), with: "<redacted>")
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
    /// Scheme, host, port and path; hides the query, which holds the key.
    package var description: String {
        "\(isSecure ? "wss" : "ws")://\(hostHeader)\(path)" + (query.isEmpty ? "" : "?<redacted>")
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}
