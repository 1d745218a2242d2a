package import ICE
import LiveKitProtocol

/// The ICE servers and policy that a room sends to its participants.
package struct RoomICE: Sendable, Equatable {
    package var servers: [ICEServer] = []
    /// Only relay candidates may be used.
    package var forcesRelay = false

    package init() {}

    func fill(_ join: inout LiveKitJoinResponse) {
        join.iceServers = messages
        if forcesRelay { join.clientConfiguration.forceRelay = .enabled }
    }

    func fill(_ reconnect: inout LiveKitReconnectResponse) {
        reconnect.iceServers = messages
        if forcesRelay { reconnect.clientConfiguration.forceRelay = .enabled }
    }

    private var messages: [LiveKitICEServer] { servers.map(Self.message) }

    /// Writes a server in LiveKit's format: credentials are fields beside the URL.
    private static func message(_ server: ICEServer) -> LiveKitICEServer {
        let host = server.host.contains(":") ? "[\(server.host)]" : server.host
        let (scheme, query) =
            switch (server.kind, server.transport) {
            case (.stun, _): ("stun", "")
            case (.turn, .tls): ("turns", "?transport=tcp")
            case (.turn, let transport): ("turn", "?transport=\(transport)")
            }
        return .with {
            $0.urls = ["\(scheme):\(host):\(server.port)\(query)"]
            $0.username = server.username ?? ""
            $0.credential = server.credential ?? ""
        }
    }
}
