/// A STUN or TURN server. All its printed forms redact the credentials.
package struct ICEServer: Sendable, Equatable {
    package enum Kind: Sendable { case stun, turn }
    package enum Transport: Sendable { case udp, tcp, tls }

    package let kind: Kind
    package let transport: Transport
    /// A host name or an address literal; IPv6 without brackets.
    package let host: String
    package let port: UInt16
    package let username: String?
    package let credential: String?
    /// A peer or service names it, and not the user: no address of it may be on this machine or its link, unless the
    /// service is there itself (`ICEConfiguration.permitsRemote`).
    package var isNamedByPeer = false

    /// - Parameters:
    ///   - url: `stun:host[:port]`, `turn:host[:port][?transport=udp|tcp]` or `turns:…`, each optionally with `//` and
    ///     a percent-encoded `user:password@`. IPv6 addresses need brackets. The default port is 3478, for `turns` 5349
    ///     (RFC 7064, RFC 7065).
    ///   - username: overrides the one in `url`.
    ///   - credential: overrides the one in `url`.
    package init(url: String, username: String? = nil, credential: String? = nil) throws(ICEServerError) {
        guard url.utf8.count <= 2_048, url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else { throw .malformed }
        guard let colon = url.firstIndex(of: ":") else { throw .malformed }
        let secure: Bool
        switch url[..<colon].lowercased() {
        case "stun": (kind, secure) = (.stun, false)
        case "turn": (kind, secure) = (.turn, false)
        case "turns": (kind, secure) = (.turn, true)
        default: throw .unsupportedScheme
        }

        var rest = url[url.index(after: colon)...]
        if rest.hasPrefix("//") { rest = rest.dropFirst(2) }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        let query: Substring?
        if let mark = rest.firstIndex(of: "?") {
            query = rest[rest.index(after: mark)...]
            rest = rest[..<mark]
            if rest.hasSuffix("/") { rest = rest.dropLast() }
        } else {
            query = nil
        }

        var user: String?
        var password: String?
        // The last "@" ends the user part, because a password typed without percent-encoding may contain one.
        if let at = rest.lastIndex(of: "@") {
            let info = rest[..<at]
            rest = rest[rest.index(after: at)...]
            let parts = info.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first?.percentDecoded else { throw .malformed }
            user = name
            if parts.count > 1 {
                guard let decoded = parts.last?.percentDecoded else { throw .malformed }
                password = decoded
            }
        }
        self.username = username ?? user
        self.credential = credential ?? password

        (host, port) = try Self.hostAndPort(rest, defaultPort: secure ? 5349 : 3478)
        transport = try Self.transport(query: query, kind: kind, secure: secure)
        if kind == .turn {
            guard let name = self.username, !name.isEmpty, self.credential != nil else { throw .missingCredentials }
        }
        // Reject NUL, because libnice takes C strings. RFC 8489 §14.3 and §14.4 limit the length.
        for text in [self.username, self.credential] {
            guard let text else { continue }
            guard text.utf8.count <= 763, !text.utf8.contains(0) else { throw .malformed }
        }
    }

    private static func hostAndPort(
        _ text: Substring, defaultPort: UInt16
    ) throws(ICEServerError) -> (String, UInt16) {
        let host: Substring
        let tail: Substring
        if text.hasPrefix("[") {
            guard let close = text.firstIndex(of: "]") else { throw .malformed }
            host = text[text.index(after: text.startIndex)..<close]
            tail = text[text.index(after: close)...]
            guard IPAddress(String(host))?.isIPv6 == true else { throw .malformed }
        } else if let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            tail = text[colon...]
        } else {
            host = text
            tail = ""
        }
        guard !host.isEmpty, host.utf8.count <= 253 else { throw .malformed }
        if !text.hasPrefix("[") {
            let marks = "-._".utf8
            guard host.utf8.allSatisfy({ $0.isLetterOrDigit || marks.contains($0) }) else { throw .malformed }
        }
        guard !tail.isEmpty else { return (String(host), defaultPort) }
        guard tail.hasPrefix(":"), let port = UInt16(tail.dropFirst()), port > 0 else { throw .malformed }
        return (String(host), port)
    }

    private static func transport(
        query: Substring?, kind: Kind, secure: Bool
    ) throws(ICEServerError) -> Transport {
        var named: Transport?
        for item in query?.split(separator: "&") ?? [] {
            let pair = item.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, pair.first?.lowercased() == "transport" else { continue }
            switch pair.last?.lowercased() {
            case "udp": named = .udp
            case "tcp": named = .tcp
            default: throw .unsupportedTransport
            }
        }
        // A `turns` server must never be contacted without TLS, whatever transport the URL names.
        if secure { return .tls }
        if kind == .stun, named == .tcp { throw .unsupportedTransport }
        return named ?? .udp
    }
}

extension ICEServer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { url(host: host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host) }

    /// The same URL for the log: an address literal is replaced, because it reveals too much about a network.
    package var withoutAddress: String { IPAddress(host) == nil ? description : url(host: "<address>") }

    /// Removes the server's address from an error text that may quote it.
    func withoutAddress(in text: String) -> String {
        IPAddress(host) == nil ? text : text.replacing(host, with: "<address>")
    }

    private func url(host place: String) -> String {
        let scheme = kind == .stun ? "stun" : transport == .tls ? "turns" : "turn"
        let who = username == nil && credential == nil ? "" : "<redacted>@"
        let query = kind == .turn && transport != .tls ? "?transport=\(transport)" : ""
        return "\(scheme)://\(who)\(place):\(port)\(query)"
    }

    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}

package enum ICEServerError: Error, Equatable, CustomStringConvertible {
    case malformed
    case unsupportedScheme
    case unsupportedTransport
    case missingCredentials

    /// Must not repeat the URL, which may contain a credential.
    package var description: String {
        switch self {
        case .malformed: "not a STUN or TURN URL (expected for example turn://user:password@host:3478?transport=udp)"
        case .unsupportedScheme: "unknown scheme: expected stun:, turn: or turns:"
        case .unsupportedTransport: "unknown transport: TURN runs over udp or tcp, STUN over udp"
        case .missingCredentials: "a TURN server needs a user name and a password"
        }
    }
}

extension Substring {
    /// Returns nil for an incomplete escape sequence or bytes that are not UTF-8.
    fileprivate var percentDecoded: String? {
        var bytes: [UInt8] = []
        var rest = utf8.makeIterator()
        func hexDigit() -> Int? { rest.next().flatMap { Character(Unicode.Scalar($0)).hexDigitValue } }
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = hexDigit(), let low = hexDigit() else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
