// The messages that DecartProtocol knows, as types and paths of fields. A test compares this table with what
// DecartProtocol encodes.

package enum KnownMessages {
    /// Messages from the service: the fields of each type, without `type`. Nested fields have their path.
    package static let fromService: [String: Set<String>] = [
        "status": ["status"],
        "queue_position": ["position", "queue_position", "queue_size"],
        "ready": [],
        "session_id": ["session_id", "sessionId", "server_ip", "server_port"],
        "prompt_ack": ["prompt", "success", "error"],
        "set_image_ack": ["success", "error"],
        "offer": ["sdp"],
        "answer": ["sdp"],
        "ice-candidate": ["candidate", "candidate.candidate", "candidate.sdpMid", "candidate.sdpMLineIndex"],
        "turn_config": ["urls", "urls[]", "username", "credential"],
        "livekit_room_info": ["livekit_url", "token", "room_name", "session_id", "sessionId"],
        "generation_started": [],
        "generation_tick": ["seconds"],
        "generation_ended": ["seconds", "reason"],
        "error": ["error", "error.message", "error_type", "message"],
    ]

    /// All names of types and fields in the protocol, and paths of fields.
    static let names: Set<String> = {
        var names: Set<String> = [
            "prompt", "set_image", "livekit_join", "enhance_prompt", "image_data", "image_ref", "passthrough",
            "initial_state", "client_capabilities", "api_key", "model", "livekit_early_room_info", "malformed",
        ]
        for (type, paths) in fromService {
            names.insert(type)
            names.formUnion(paths)
            for path in paths { names.formUnion(path.split(separator: ".").map { String($0) }) }
        }
        return names
    }()

    /// Texts for people, whose words a report shows: a path is `type.field`.
    static let shownTexts: Set<String> = [
        "status.status", "generation_ended.reason", "prompt_ack.error", "set_image_ack.error", "error.error",
        "error.error.message", "error.error_type", "error.message",
    ]
}
