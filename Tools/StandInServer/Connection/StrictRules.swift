// With `--strict`, a client may send only what Decart's SDKs send. Each table comes from the sources that it names, not from
// `DecartProtocol`, so that the stand-in does not share a mistake of the elements.
package import DecartProtocol

package enum StrictRules {
    /// Path of a session (Python 0.2.4, models.py, `url_path`).
    static let path = "/v1/stream"

    /// Fields of the client's messages, besides `type`.
    private static let messages: [String: Set<String>] = [
        // Python 0.2.4, realtime/messages.py.
        "prompt": ["prompt", "enhance_prompt"],
        // The same; image_ref: JS 0.1.16, realtime/types.ts.
        "set_image": ["image_data", "image_ref", "prompt", "enhance_prompt"],
        // JS 0.1.16, realtime/types.ts; initial_state: Swift 0.6.6, SignalingModel.swift.
        "livekit_join": ["passthrough", "client_capabilities", "initial_state"],
        // Python 0.0.39, realtime/messages.py.
        "offer": ["sdp"],
        "ice-candidate": ["candidate"],
        // JS 0.0.67, realtime/webrtc-connection.ts: answers an offer of the service.
        "answer": ["sdp"],
    ]

    /// Fields of the objects in these fields.
    private static let objects: [String: Set<String>] = [
        // JS 0.1.16, realtime/types.ts.
        "client_capabilities": ["frame_timing"],
        // Python 0.0.39, realtime/messages.py. JS 0.0.67, realtime/webrtc-connection.ts, sends the browser's
        // RTCIceCandidate, which has the fragment.
        "candidate": ["candidate", "sdpMid", "sdpMLineIndex", "usernameFragment"],
    ]

    /// Query items with the values that SDKs send; nil: any.
    private static let items: [String: Set<String>?] = [
        // Python 0.2.4, realtime/client.py, livekit_connection.py and types.py.
        "api_key": nil, "model": Set(models), "user_agent": nil, "livekit_early_room_info": ["true"],
        "resolution": ["720p", "1080p"], "speed": ["fast"],
        // Swift 0.6.6, DecartClient.swift.
        "pixel_latency": ["1"],
        // JS 0.1.16, realtime/browser/prepare-connection.ts.
        "livekit_server_codec": nil,
        // Python 0.0.39, realtime/client.py, `subscribe`.
        "IP": nil, "port": nil,
        // The stand-in's own.
        "fault": nil,
    ]

    private static let models = [
        // Python 0.2.4, models.py.
        "lucy-2.1", "lucy-2.5", "lucy-2.6", "lucy-vton-3.5", "lucy-vton-3.6", "lucy-restyle-2", "lucy-latest",
        "lucy-vton-latest", "lucy-restyle-latest",
        // JS 0.1.16, shared/model.ts.
        "lucy-vton-2", "lucy-vton-3", "lucy-2.1-vton-2",
    ]

    /// Describes the first field of the message that no SDK sends; nil: there is none.
    package static func unknown(in message: JSONValue) -> String? {
        guard let type = message["type"]?.string, let fields = messages[type] else {
            return "unknown message type \(LogText.clean(message["type"]?.string ?? "(none)"))"
        }
        guard case .object(let sent) = message else { return nil }
        for field in sent where field.name != "type" {
            guard fields.contains(field.name) else {
                return "unknown field \(LogText.clean(field.name)) in \(type)"
            }
            guard case .object(let inner) = field.value else { continue }
            if field.name == "initial_state", ["prompt", "set_image"].contains(field.value["type"]?.string) {
                if let text = unknown(in: field.value) { return text }
            } else if let name = inner.map(\.name).first(where: { objects[field.name]?.contains($0) != true }) {
                return "unknown field \(LogText.clean(name)) in \(field.name) of \(type)"
            }
        }
        return nil
    }

    /// Describes the first query item, or value of one, that no SDK sends; nil: there is none.
    package static func unknown(inItems sent: [String: String]) -> String? {
        for (name, value) in sent.sorted(by: { $0.key < $1.key }) {
            guard let values = items[name] else { return "unknown query item \(LogText.clean(name))" }
            if let values, !values.contains(value) {
                return "unknown value of the query item \(name): \(LogText.clean(value))"
            }
        }
        return nil
    }
}
