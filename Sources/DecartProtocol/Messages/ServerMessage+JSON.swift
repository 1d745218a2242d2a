extension ServerMessage {
    /// Largest message that a client accepts, in bytes.
    package static let maximumSize = 1 << 20

    /// Encodes one JSON object in UTF-8, the body of a text frame.
    package func encoded() throws(ProtocolError) -> [UInt8] {
        try JSONText.encode(self)
    }

    /// Decodes the body of a text frame. Throws if it is malformed; an unknown type gives `.unknown`.
    package init(decoding bytes: [UInt8], maximumSize: Int = ServerMessage.maximumSize) throws(ProtocolError) {
        self = try JSONText.decode(ServerMessage.self, from: bytes, maximumSize: maximumSize)
    }
}

extension ServerMessage: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: WireKey.self)
        let type = try container.decode(String.self, forKey: "type")
        self =
            switch type {
            case "status": .status(try container.decode(String.self, forKey: "status"))
            case "queue_position": .queuePosition(try QueuePosition(container))
            case "ready": .ready
            case "session_id": .sessionID(try SessionIdentity(container))
            case "prompt_ack": .promptAck(try PromptAck(container))
            case "set_image_ack": .setImageAck(try SetImageAck(container))
            case "offer": .offer(sdp: try container.sdp())
            case "answer": .answer(sdp: try container.sdp())
            case "ice-candidate": .iceCandidate(try container.candidate())
            case "turn_config": .turnConfig(try TURNConfig(container))
            case "livekit_room_info": .livekitRoomInfo(try LiveKitRoomInfo(container))
            case "generation_started": .generationStarted
            case "generation_tick": .generationTick(seconds: container.number("seconds"))
            case "generation_ended":
                .generationEnded(seconds: container.number("seconds"), reason: container.text("reason"))
            case "error":
                .error(
                    container.errorText, type: container.text("error_type"), retryAfter: container.number("retry_after")
                )
            default: .unknown(type: type)
            }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: WireKey.self)
        try container.encode(type, forKey: "type")
        switch self {
        case .ready, .generationStarted, .unknown:
            break
        case .status(let status):
            try container.encode(status, forKey: "status")
        case .queuePosition(let queue):
            try container.encode(queue.position, forKey: "position")
            try container.encodeIfPresent(queue.size, forKey: "queue_size")
        case .sessionID(let identity):
            try container.encode(identity.id, forKey: "session_id")
            try container.encodeIfPresent(identity.serverIP, forKey: "server_ip")
            try container.encodeIfPresent(identity.serverPort, forKey: "server_port")
        case .promptAck(let ack):
            try container.encodeIfPresent(ack.prompt, forKey: "prompt")
            try container.encode(ack.success, forKey: "success")
            try container.encode(ack.error, forKey: "error")
        case .setImageAck(let ack):
            try container.encode(ack.success, forKey: "success")
            try container.encode(ack.error, forKey: "error")
        case .offer(let sdp), .answer(let sdp):
            try container.encode(sdp, forKey: "sdp")
        case .iceCandidate(let candidate):
            try container.encode(candidate, forKey: "candidate")
        case .turnConfig(let turn):
            try container.encode(turn.urls, forKey: "urls")
            try container.encodeIfPresent(turn.username, forKey: "username")
            try container.encodeIfPresent(turn.credential?.reveal(), forKey: "credential")
        case .livekitRoomInfo(let info):
            try container.encode(info.url, forKey: "livekit_url")
            try container.encode(info.token.reveal(), forKey: "token")
            try container.encodeIfPresent(info.roomName, forKey: "room_name")
            try container.encodeIfPresent(info.sessionID, forKey: "session_id")
        case .generationTick(let seconds):
            try container.encode(seconds: seconds)
        case .generationEnded(let seconds, let reason):
            try container.encode(seconds: seconds)
            try container.encodeIfPresent(reason, forKey: "reason")
        case .error(let text, let type, let retryAfter):
            try container.encode(text, forKey: "error")
            try container.encodeIfPresent(type, forKey: "error_type")
            try container.encode(seconds: retryAfter, forKey: "retry_after")
        }
    }
}

extension KeyedEncodingContainer<WireKey> {
    /// Writes whole seconds as an integer, because some clients read nothing else.
    fileprivate mutating func encode(seconds: Double?, forKey key: WireKey = "seconds") throws {
        guard let seconds, seconds.isFinite else { return }
        if let whole = Int(exactly: seconds) {
            try encode(whole, forKey: key)
        } else {
            try encode(seconds, forKey: key)
        }
    }
}

extension KeyedDecodingContainer<WireKey> {
    /// Text of `error` or `message`, or of `message` inside an `error` object.
    fileprivate var errorText: String {
        let nested = try? nestedContainer(keyedBy: WireKey.self, forKey: "error")
        let texts = [text("error"), text("message"), nested?.text("message")]
        return texts.compactMap(\.self).first { !$0.isEmpty } ?? "unspecified error"
    }
}

extension QueuePosition {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        guard let position = container.integer("position", "queue_position"), position >= 0 else {
            throw ProtocolError(.server, "A message is malformed: position is missing.")
        }
        self.init(position: position, size: container.integer("queue_size").flatMap { $0 >= 0 ? $0 : nil })
    }
}

extension SessionIdentity {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        guard let id = container.text("session_id", "sessionId"), !id.isEmpty else {
            throw ProtocolError(.server, "A message is malformed: session_id is missing.")
        }
        self.init(
            id: id, serverIP: container.text("server_ip"),
            serverPort: container.integer("server_port").flatMap { (1...65535).contains($0) ? $0 : nil })
    }
}

extension PromptAck {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        let error = container.text("error")
        self.init(prompt: container.text("prompt"), success: container.flag("success") ?? (error == nil), error: error)
    }
}

extension SetImageAck {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        let error = container.text("error")
        self.init(success: container.flag("success") ?? (error == nil), error: error)
    }
}

extension TURNConfig {
    /// Each of a server that is not used costs a message in the log.
    private static let maximumURLs = 8

    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        self.init(
            urls: Array(try container.decode([String].self, forKey: "urls").prefix(Self.maximumURLs)),
            username: container.text("username"),
            credential: container.text("credential").map(Secret.init))
    }
}

extension LiveKitRoomInfo {
    fileprivate init(_ container: KeyedDecodingContainer<WireKey>) throws {
        self.init(
            url: try container.decode(String.self, forKey: "livekit_url"),
            token: Secret(try container.decode(String.self, forKey: "token")),
            roomName: container.text("room_name"),
            sessionID: container.text("session_id", "sessionId"))
    }

    /// Largest HTTP response body that is read, in bytes.
    package static let maximumSize = 64 << 10

    /// Decodes the HTTP response to a viewer's request: the message's fields without `type`. Errors quote nothing of
    /// it.
    package init(decoding bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.read(bytes, maximumSize: Self.maximumSize) { try LiveKitRoomInfo($0) }
    }
}
