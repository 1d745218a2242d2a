import DecartSession
import ICE
import Signalling

/// Access to rooms, TURN servers and WHEP servers.
struct ServerAccess: Sendable {
    var trust: TLSTrust
    var route: NetworkRoute
    /// Tokens may travel unencrypted.
    var allowsInsecure: Bool
    /// The service is on another machine, so it may not name servers on this one or its link.
    var refusesLocal = false

    /// TURN over TLS or TCP: the ICE agent requests a tunnel, and the target Signalling opens it.
    var tunnelOpener: RelayTunnelOpener {
        { [trust, route, refusesLocal] server, address, onEvent in
            ServerTunnel(
                host: server.host, port: server.port, trust: server.transport == .tls ? trust : nil, route: route,
                refusesLocal: refusesLocal && server.isNamedByPeer, listeningAt: address
            ) { event in
                switch event {
                case .listening(let port): onEvent(.open(port: port))
                case .failed(let error): onEvent(.failed(error.message))
                }
            }
        }
    }
}

extension ServerTunnel: RelayTunnel {}
