// The read-only properties that show the session.
import DecartProtocol
import DecartSession
import GStreamerKit

extension SessionSnapshot: PropertyStorage {
    static let properties = PropertyTable<SessionSnapshot>([
        .enumeration(
            "connection-state", nick: "Connection state", blurb: "State of the session; notify is emitted on change",
            \.state),
        .readOnly(
            "queue-position", nick: "Queue position", blurb: "Position in the service's queue (-1 = not in a queue)",
            { .int(-1...Int(Int32.max), default: $0) }, { GValueBox(int: $0) }, { $0.queue?.position ?? -1 }),
        .readOnly(
            "queue-size", nick: "Queue size", blurb: "Length of the service's queue (-1 = unknown)",
            { .int(-1...Int(Int32.max), default: $0) }, { GValueBox(int: $0) }, { $0.queue?.size ?? -1 }),
        .readOnly(
            "generation-seconds", nick: "Generation seconds",
            blurb: "Seconds billed, while the service generates (else -1); stats has total-generation-seconds",
            { .double(-1...1e12, default: $0) }, { GValueBox(double: $0) }, { $0.generationSeconds ?? -1 }),
        Property(
            PropertySpec(
                "subscribe-token", nick: "Subscribe token",
                blurb:
                    "Token for viewers of this session: keep it secret. NULL until notify::session-id; has no notify",
                .privateString, access: .readOnly),
            get: { GValueBox(try? $0.subscribeToken?.encoded()) }),
        .readOnly(
            "session-id", nick: "Session id", blurb: "The service's id of the session (NULL until it sends one)",
            { .string(default: $0) }, { GValueBox($0) }, \.sessionID),
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
