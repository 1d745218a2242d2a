// The read-only properties that show the session.
import DecartProtocol
import DecartSession
import GStreamerKit

extension SessionSnapshot: PropertyStorage {
    static let properties = PropertyTable<SessionSnapshot>([
        .enumeration(
            "service-status", nick: "Service status", blurb: "The service's last status message", \.serviceStatus),
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
            blurb: "Seconds of generation that the service has billed (-1 = none yet)"
        ) { $0.generationSeconds ?? -1 },
        Property(
            PropertySpec(
                "subscribe-token", nick: "Subscribe token",
                blurb:
                    "Token for viewers of this session: keep it secret. NULL until notify::session-id; has no notify",
                .privateString, access: .readOnly),
            get: { GValueBox(try? $0.subscribeToken?.encoded()) }),
        .uint(
            "session-duration", in: 0...1_000_000_000, nick: "Session duration",
            blurb: "Seconds that the client token allows this session (0 = unlimited or unknown)"
        ) { Int(clamping: $0.granted?.components.seconds ?? 0) },
        .boolean(
            "muted-by-service", nick: "Muted by service",
            blurb: "The service has muted the video track; setting mute-video or standby to false ends that",
            \.isMutedByService),
        .boolean(
            "is-connected", nick: "Is connected", blurb: "connection-state is connected or generating",
            \.state.isConnected),
        .boolean(
            "is-in-session", nick: "Is in session",
            blurb: "connection-state is connecting, connected, generating or reconnecting", \.state.isInSession),
        .enumeration(
            "connection-state", nick: "Connection state", blurb: "State of the session; notify is emitted on change",
            \.state),
        .string(
            "session-id", nick: "Session id", blurb: "The service's id of the session (NULL until it sends one)",
            \.sessionID),
    ])

    /// Names of the properties that differ, without subscribe-token: `gst-launch-1.0 -v` prints what is notified.
    func changes(since before: SessionSnapshot) -> [String] {
        var names: [String] = []
        if state != before.state { names.append("connection-state") }
        if state.isConnected != before.state.isConnected { names.append("is-connected") }
        if state.isInSession != before.state.isInSession { names.append("is-in-session") }
        if serviceStatus != before.serviceStatus { names.append("service-status") }
        if queue?.position != before.queue?.position { names.append("queue-position") }
        if queue?.size != before.queue?.size { names.append("queue-size") }
        if generationSeconds != before.generationSeconds { names.append("generation-seconds") }
        if isMutedByService != before.isMutedByService { names.append("muted-by-service") }
        if sessionID != before.sessionID { names.append("session-id") }
        if granted != before.granted { names.append("session-duration") }
        return names
    }
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

extension ServiceStatus: PropertyEnumeration {
    package static let typeName = "GstDecartServiceStatus"

    package var blurb: String {
        switch self {
        case .unknown: "No status yet"
        case .enteringQueue: "Busy: the session waits in the queue"
        case .ready: "Ready"
        case .waitingForSession: "The account's sessions are all in use: waits for one to end"
        }
    }
}
