/// What a viewer needs to watch a session: base64url over a small JSON object.
package enum SubscribeToken: Sendable, Equatable {
    /// Generation 1: the session, and the server that runs it.
    case direct(sid: String, ip: String, port: Int)
    /// Generation 2: the name of the room.
    case room(name: String)

    package init(_ token: String) throws(ProtocolError) {
        guard token.utf8.count <= 8192, let bytes = Base64.decode(token, alphabet: .url) else {
            throw ProtocolError(.invalidInput, "The subscribe token is not base64url.")
        }
        self = try JSONText.decode(SubscribeToken.self, from: bytes, maximumSize: 8192)
    }

    package func encoded() throws(ProtocolError) -> String {
        Base64.encode(try JSONText.encode(self), alphabet: .url)
    }
}

extension SubscribeToken: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: WireKey.self)
        if let sid = container.text("sid"), let ip = container.text("ip"), let port = container.integer("port"),
            !sid.isEmpty, !ip.isEmpty, (1...65535).contains(port)
        {
            self = .direct(sid: sid, ip: ip, port: port)
        } else if let name = container.text("room_name"), !name.isEmpty {
            self = .room(name: name)
        } else {
            throw ProtocolError(.invalidInput, "The subscribe token names neither a session nor a room.")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: WireKey.self)
        switch self {
        case .direct(let sid, let ip, let port):
            try container.encode(sid, forKey: "sid")
            try container.encode(ip, forKey: "ip")
            try container.encode(port, forKey: "port")
        case .room(let name):
            try container.encode(name, forKey: "room_name")
        }
    }
}
