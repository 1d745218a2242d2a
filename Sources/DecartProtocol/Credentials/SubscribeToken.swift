/// Lets a viewer watch a session: base64url of a small JSON object. It gives access to the session, so it is kept as
/// secret as a key.
package enum SubscribeToken: Sendable, Equatable {
    /// Generation 1: the session, and the server that runs it.
    case direct(sid: String, ip: String, port: Int)
    /// Generation 2: the name of the room, and whether its frames have trailers with their times, which viewers remove
    /// only if the token says so.
    case room(name: String, frameTiming: Bool = false)

    package init(_ token: String) throws(ProtocolError) {
        guard token.utf8.count <= 8192, let bytes = Base64.decode(token, alphabet: .url) else {
            throw ProtocolError(
                .invalidInput, "subscribe-token is not base64url. Copy it unchanged from the publisher.")
        }
        guard let token = try? JSONText.read(bytes, maximumSize: 8192, Self.token(in:)) else {
            throw ProtocolError(
                .invalidInput,
                "subscribe-token contains neither a session nor a room. Copy it unchanged from the publisher.")
        }
        self = token
    }

    private static func token(in container: KeyedDecodingContainer<WireKey>) -> SubscribeToken? {
        if let sid = container.text("sid"), let ip = container.text("ip"), let port = container.integer("port"),
            isName(sid), !ip.isEmpty, (1...65535).contains(port)
        {
            return .direct(sid: sid, ip: ip, port: port)
        }
        let frameTiming = container.flag("frame_timing") ?? false
        return container.text("room_name").flatMap { isName($0) ? .room(name: $0, frameTiming: frameTiming) : nil }
    }

    /// True if the text is safe as a segment of a URL's path, where `.` and `..` would lead elsewhere.
    private static func isName(_ text: String) -> Bool { !text.isEmpty && text != "." && text != ".." }

    /// Encodes with padding, because the service's own viewers require it.
    package func encoded() throws(ProtocolError) -> String {
        let text = Base64.encode(try JSONText.encode(self), alphabet: .url)
        return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    }

    /// Media path of the session.
    package var transport: MediaTransportKind {
        switch self {
        case .direct: .webrtc
        case .room: .livekit
        }
    }
}

extension SubscribeToken: Encodable {
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: WireKey.self)
        switch self {
        case .direct(let sid, let ip, let port):
            try container.encode(sid, forKey: "sid")
            try container.encode(ip, forKey: "ip")
            try container.encode(port, forKey: "port")
        case .room(let name, let frameTiming):
            try container.encode(name, forKey: "room_name")
            if frameTiming { try container.encode(true, forKey: "frame_timing") }
        }
    }
}

extension SubscribeToken: Redacted {}
