extension HTTPURL {
    /// Splits a URL into its parts (RFC 3986 §3); strict wherever a mistake would reach a request line. The error contains
    /// no part of the URL.
    /// - Parameters:
    ///   - property: the property that holds the URL, for the error.
    ///   - schemes: accepted schemes in lower case, with a flag for the encrypted ones.
    ///   - ports: those of the schemes without and with encryption.
    ///   - reserved: names that the query must not contain.
    init(
        parsing text: String, property: String,
        schemes: [(name: String, isSecure: Bool)] = [("https", true), ("http", false)],
        ports: (plain: Int, secure: Int) = (80, 443), reserved: [String] = [],
        code: DecartErrorCode = .invalidOptions
    ) throws(ProtocolError) {
        func refuse(_ reason: String) -> ProtocolError { ProtocolError(code, "\(property) \(reason).") }

        guard text.utf8.count <= 2048 else { throw refuse("is longer than 2048 bytes") }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw refuse("has a space, a control character or a non-ASCII character in it")
        }
        guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://"),
            let isSecure = schemes.first(where: { $0.name == text[..<colon].lowercased() })?.isSecure
        else {
            let names = schemes.map { $0.name + "://" }
            throw refuse("must begin with \(names.dropLast().joined(separator: ", ")) or \(names.last ?? "")")
        }
        var rest = text[colon...].dropFirst(3)

        // RFC 6455 §3 forbids fragments in WebSocket URLs.
        guard !rest.contains("#") else { throw refuse("must not have a fragment (#…)") }
        var query = ""
        if let mark = rest.firstIndex(of: "?") {
            query = String(rest[rest.index(after: mark)...])
            rest = rest[..<mark]
        }
        // The key has a property of its own: a base URL is readable, so it must not contain secrets.
        let names = query.split(separator: "&").map { $0.prefix { $0 != "=" } }
        guard !names.contains(where: { reserved.contains(String($0)) }) else {
            throw refuse("must not carry \(reserved.joined(separator: " or ")): they have properties of their own")
        }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        guard !authority.contains("@") else { throw refuse("must not carry a user name or password") }

        self.isSecure = isSecure
        self.query = query
        path = slash == rest.endIndex ? "" : String(rest[slash...])
        guard let (host, port) = Self.hostAndPort(authority) else { throw refuse("has no valid host and port") }
        self.host = host
        self.port = port ?? (isSecure ? ports.secure : ports.plain)
        guard !path.utf8.contains(where: { "\"<>\\^`{|}".utf8.contains($0) }),
            !query.utf8.contains(where: { "\"<>\\^`{|}".utf8.contains($0) })
        else { throw refuse("has a character that must be percent-encoded") }
    }

    private static func hostAndPort(_ authority: Substring) -> (String, Int?)? {
        let host: Substring
        var rest: Substring
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            host = authority[..<end].dropFirst()
            rest = authority[authority.index(after: end)...]
            guard host.contains(":"), HostAddress(String(host)) != nil else { return nil }
        } else {
            let end = authority.firstIndex(of: ":") ?? authority.endIndex
            host = authority[..<end]
            rest = authority[end...]
            guard !host.isEmpty, host.utf8.count <= 253, host.utf8.allSatisfy({ $0.isAlphanumeric(or: "-._") }) else {
                return nil
            }
        }
        guard !rest.isEmpty else { return (host.lowercased(), nil) }
        rest = rest.dropFirst()
        guard authority[..<rest.startIndex].hasSuffix(":") else { return nil }
        // An empty port ("host:") means the scheme's default.
        if rest.isEmpty { return (host.lowercased(), nil) }
        guard rest.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(rest), (1...65535).contains(port)
        else { return nil }
        return (host.lowercased(), port)
    }
}
