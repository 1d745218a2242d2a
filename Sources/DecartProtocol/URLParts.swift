/// A base URL taken apart (RFC 3986 §3), strict where a mistake would reach a request line.
struct URLParts {
    let isSecure: Bool
    let host: String
    let port: Int?
    let path: String
    let query: String

    init(_ text: String) throws(ProtocolError) {
        func refuse(_ reason: String) -> ProtocolError { ProtocolError(.invalidBaseURL, "base-url \(reason).") }

        guard text.utf8.count <= 2048 else { throw refuse("is longer than 2048 bytes") }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw refuse("has a space, a control character or a non-ASCII character in it")
        }
        let schemes = ["wss": true, "https": true, "ws": false, "http": false]
        guard let colon = text.firstIndex(of: ":"), let isSecure = schemes[text[..<colon].lowercased()],
            text[colon...].hasPrefix("://")
        else { throw refuse("must begin with wss://, ws://, https:// or http://") }
        var rest = text[colon...].dropFirst(3)

        // RFC 6455 §3: fragments have no meaning in WebSocket URLs.
        guard !rest.contains("#") else { throw refuse("must not have a fragment (#…)") }
        var query = ""
        if let mark = rest.firstIndex(of: "?") {
            query = String(rest[rest.index(after: mark)...])
            rest = rest[..<mark]
        }
        // The key has its own property: a base URL is readable, so nothing secret may be in it.
        let names = query.split(separator: "&").map { $0.prefix { $0 != "=" } }
        guard !names.contains("api_key"), !names.contains("model") else {
            throw refuse("must not carry api_key or model: they have properties of their own")
        }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        guard !authority.contains("@") else { throw refuse("must not carry a user name or password") }

        self.isSecure = isSecure
        self.query = query
        path = slash == rest.endIndex ? "" : String(rest[slash...])
        guard let (host, port) = URLParts.hostAndPort(authority) else { throw refuse("has no valid host and port") }
        self.host = host
        self.port = port
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
            guard host.contains(":"), IPAddress(String(host)) != nil else { return nil }
        } else {
            let end = authority.firstIndex(of: ":") ?? authority.endIndex
            host = authority[..<end]
            rest = authority[end...]
            guard !host.isEmpty, host.utf8.count <= 253, host.utf8.allSatisfy(isHostCharacter) else { return nil }
        }
        guard !rest.isEmpty else { return (host.lowercased(), nil) }
        rest = rest.dropFirst()
        guard authority[..<rest.startIndex].hasSuffix(":") else { return nil }
        // "host:" means the scheme's port.
        if rest.isEmpty { return (host.lowercased(), nil) }
        guard rest.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(rest), (1...65535).contains(port)
        else { return nil }
        return (host.lowercased(), port)
    }

    private static func isHostCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
        default: false
        }
    }
}
