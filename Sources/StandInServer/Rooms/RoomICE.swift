package import ICE
import LiveKitProtocol
import SwiftProtobuf

/// What a room tells those who join about finding a path.
package struct RoomICE: Sendable, Equatable {
    package var servers: [ICEServer] = []
    /// Nothing but relays may be used.
    package var forcesRelay = false

    package init() {}

    func fill(_ join: inout LiveKitJoinResponse) {
        join.iceServers = servers.map(Self.message)
        if forcesRelay { join.clientConfiguration.forceRelay = .enabled }
    }

    /// As LiveKit writes it: credentials stand beside the URL, as they are.
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
