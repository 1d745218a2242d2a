/// A message from service to client, one case per `type`.
package enum ServerMessage: Sendable, Equatable {
    /// The text as received; `ServiceStatus(statusText:)` parses it.
    case status(String)
    case queuePosition(QueuePosition)
    /// Sent by older servers: the client may send its offer now.
    case ready
    case sessionID(SessionIdentity)
    case promptAck(PromptAck)
    case setImageAck(SetImageAck)
    case offer(sdp: String)
    case answer(sdp: String)
    /// nil marks the end of candidates.
    case iceCandidate(CandidateMessage?)
    case turnConfig(TURNConfig)
    case livekitRoomInfo(LiveKitRoomInfo)
    case generationStarted
    /// Seconds billed so far; nil if absent.
    case generationTick(seconds: Double?)
    case generationEnded(seconds: Double?, reason: String?)
    /// `type` is the service's word for the cause; older services send none. `retryAfter`: seconds that the service requests
    /// before the next attempt.
    case error(String, type: String? = nil, retryAfter: Double? = nil)
    /// A type that this version does not know; receivers ignore it.
    case unknown(type: String)

    /// Value of the `type` key.
    package var type: String {
        switch self {
        case .status: "status"
        case .queuePosition: "queue_position"
        case .ready: "ready"
        case .sessionID: "session_id"
        case .promptAck: "prompt_ack"
        case .setImageAck: "set_image_ack"
        case .offer: "offer"
        case .answer: "answer"
        case .iceCandidate: "ice-candidate"
        case .turnConfig: "turn_config"
        case .livekitRoomInfo: "livekit_room_info"
        case .generationStarted: "generation_started"
        case .generationTick: "generation_tick"
        case .generationEnded: "generation_ended"
        case .error: "error"
        case .unknown(let type): type
        }
    }
}

extension ServerMessage {
    /// Applies `change` to the texts meant for people: they end up in errors and logs, and some services repeat the API
    /// key in them.
    package func mappingText(_ change: (String) -> String) -> ServerMessage {
        switch self {
        case .error(let text, let type, let retryAfter):
            return .error(change(text), type: type, retryAfter: retryAfter)
        case .generationEnded(let seconds, let reason):
            return .generationEnded(seconds: seconds, reason: reason.map(change))
        case .promptAck(var ack):
            ack.error = ack.error.map(change)
            return .promptAck(ack)
        case .setImageAck(var ack):
            ack.error = ack.error.map(change)
            return .setImageAck(ack)
        case .unknown(let type): return .unknown(type: change(type))
        default:
            return self
        }
    }
}

package struct QueuePosition: Sendable, Equatable {
    package var position: Int
    /// Length of the queue; nil if absent.
    package var size: Int?

    package init(position: Int, size: Int? = nil) {
        self.position = position
        self.size = size
    }
}

/// Identifies a session. With a room name, or with address and port, it makes a subscribe token.
package struct SessionIdentity: Sendable, Equatable {
    package var id: String
    package var serverIP: String?
    package var serverPort: Int?
    /// The LiveKit room that carries the session's media, if there is one.
    package var roomName: String?
    /// The frames in the room have trailers with their times.
    package var hasFrameTiming: Bool

    package init(
        id: String, serverIP: String? = nil, serverPort: Int? = nil, roomName: String? = nil,
        hasFrameTiming: Bool = false
    ) {
        self.id = id
        self.serverIP = serverIP
        self.serverPort = serverPort
        self.roomName = roomName
        self.hasFrameTiming = hasFrameTiming
    }

    /// Lets viewers watch this session; nil until either the room, or address and port, are known.
    package var subscribeToken: SubscribeToken? {
        if let roomName, !roomName.isEmpty { return .room(name: roomName, frameTiming: hasFrameTiming) }
        guard let serverIP, let serverPort else { return nil }
        return .direct(sid: id, ip: serverIP, port: serverPort)
    }
}

package struct PromptAck: Sendable, Equatable {
    /// The acknowledged text; some servers omit it.
    package var prompt: String?
    package var success: Bool
    package var error: String?

    package init(prompt: String?, success: Bool, error: String? = nil) {
        self.prompt = prompt
        self.success = success
        self.error = error
    }
}

package struct SetImageAck: Sendable, Equatable {
    package var success: Bool
    package var error: String?

    package init(success: Bool, error: String? = nil) {
        self.success = success
        self.error = error
    }
}

/// A TURN server, in addition to the configured ICE servers.
package struct TURNConfig: Sendable, Equatable {
    package var urls: [String]
    package var username: String?
    package var credential: Secret?

    package init(urls: [String], username: String? = nil, credential: Secret? = nil) {
        self.urls = urls
        self.username = username
        self.credential = credential
    }
}

/// The room to join when media go through LiveKit.
package struct LiveKitRoomInfo: Sendable, Equatable {
    package var url: String
    package var token: Secret
    package var roomName: String?
    package var sessionID: String?

    package init(url: String, token: Secret, roomName: String? = nil, sessionID: String? = nil) {
        self.url = url
        self.token = token
        self.roomName = roomName
        self.sessionID = sessionID
    }
}
