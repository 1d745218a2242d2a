// Validates the service's base URL once and builds request URLs from it. The API key is part of the query, so the
// description of a `ServiceURL` hides the query. Opens no connection.

/// A WebSocket URL of the service, built from the user's base URL; complete after `stream`, `subscribe` or
/// `watchStream`.
@dynamicMemberLookup
package struct ServiceURL: Sendable, Equatable {
    package static let defaultBase = "wss://api.decart.ai"

    /// The same for a request that is no upgrade.
    package private(set) var http: HTTPURL
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
        if base.path.hasSuffix("/rtc") { base.http.path.removeLast(4) }
        self = base.appending(path: path, items: options, key: token)
        bearer = token
    }

    /// The URL where a room's server says if it takes a signalling connection with the same query.
    package var validation: ServiceURL {
        var url = self
        url.http.path += "/validate"
        return url
    }

    private init(_ text: String, property: String, allowInsecure: Bool) throws(ProtocolError) {
        http = try HTTPURL(
            parsing: text, property: property,
            schemes: [("wss", true), ("ws", false), ("https", true), ("http", false)],
            reserved: ["api_key", "model"], code: .invalidBaseURL)
        guard http.protectsToken || allowInsecure else {
            throw ProtocolError(
                .invalidBaseURL,
                "\(property) is unencrypted and \(http.host) is another machine: "
                    + "\(property == "base-url" ? "the API key" : "the room's token") could be read on the network. "
                    + "Use wss://, or set insecure=true.")
        }
    }

    /// Throws `INVALID_API_KEY` if Decart's own service, not a stand-in or a gateway, would be sent the placeholder of a key.
    package func check(_ key: APIKey) throws(ProtocolError) {
        guard http.host.lowercased().hasSuffix(".decart.ai"), key.isPlaceholder else { return }
        throw ProtocolError(
            .invalidAPIKey,
            "The API key is the placeholder of an example. Set DECART_API_KEY to a key of platform.decart.ai; for the stand-in "
                + "set base-url, or DECART_BASE_URL.")
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
        if base.path.hasSuffix(DecartModel.urlPath) { base.http.path.removeLast(DecartModel.urlPath.count) }
        return base.appending(path: path, items: [], key: key)
    }

    private func viewing(path: String, items: [(name: String, value: String)], key: APIKey?) -> ServiceURL {
        var url = appending(path: path, items: items, key: key)
        url.isForViewers = true
        return url
    }

    /// The key or token of this request.
    package var secret: Secret? { key.map { Secret($0.reveal()) } }

    /// Longest session that the key permits; nil if the key has no such claim.
    package var sessionLimit: Duration? { key?.sessionLimit }

    package subscript<Value>(dynamicMember member: KeyPath<HTTPURL, Value>) -> Value { http[keyPath: member] }

    /// Removes our key from a peer's text, in case the peer repeats it.
    package func redacting(_ text: String) -> String { TextRedactor(key.map { [$0.reveal()] } ?? [])(text) }

    private func appending(path suffix: String, items: [(name: String, value: String)], key: APIKey?) -> ServiceURL {
        var copy = self
        copy.key = key
        if !copy.path.hasSuffix(suffix) {
            while copy.path.hasSuffix("/") { copy.http.path.removeLast() }
            copy.http.path += suffix
        }
        let added = items.map { PercentEncoding.encode($0.name) + "=" + PercentEncoding.encode($0.value) }
        copy.http.query = ((http.query.isEmpty ? [] : [http.query]) + added).joined(separator: "&")
        return copy
    }
}

extension ServiceURL: Redacted {
    package var description: String {
        "\(http.isSecure ? "wss" : "ws")://\(http.hostHeader)\(http.path)" + (http.query.isEmpty ? "" : "?<redacted>")
    }
}
