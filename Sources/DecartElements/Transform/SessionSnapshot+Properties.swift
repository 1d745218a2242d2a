// The read-only properties that show the session.
import DecartProtocol
import DecartSession
import GStreamerKit

extension SessionSnapshot: PropertyStorage {
    static let properties = PropertyTable<SessionSnapshot>([
        .enumeration(
            "connection-state", nick: "Connection state", blurb: "State of the session; notify is emitted on change",
            \.state),
        .int(
            "queue-position", in: -1...Int(Int32.max), nick: "Queue position",
            blurb: "Position in the service's queue (-1 = not in a queue)"
        ) { $0.queue?.position ?? -1 },
        .int(
            "queue-size", in: -1...Int(Int32.max), nick: "Queue size",
            blurb: "Length of the service's queue (-1 = unknown)"
        ) { $0.queue?.size ?? -1 },
        .double(
            "generation-seconds", in: -1...1e12, nick: "Generation seconds",
            blurb: "Seconds billed, while the service generates (else -1); stats has total-generation-seconds"
        ) { $0.generationSeconds ?? -1 },
        Property(
            PropertySpec(
                "subscribe-token", nick: "Subscribe token",
                blurb:
                    "Token for viewers of this session: keep it secret. NULL until notify::session-id; has no notify",
                .privateString, access: .readOnly),
            get: { GValueBox(try? $0.subscribeToken?.encoded()) }),
        .string(
            "session-id", nick: "Session id", blurb: "The service's id of the session (NULL until it sends one)",
            \.sessionID),
    ])
}

extension SessionState: PropertyEnumeration {
    package static let typeName = "GstDecartConnectionState"

    package var blurb: String {
        switch self {
        case .idle: "Not started"
        case .connecting: "Connecting, or in the service's queue"
        case .connected: "Media flow"
        case .generating: "The service generates frames"
        case .reconnecting: "Connection lost, retrying"
        case .disconnected: "Ended by the application"
        case .error: "Ended by an error"
        }
    }
}
