// TURN over TLS or through an HTTP proxy: the ICE agent requests a tunnel, and the target Signalling opens it.
import DecartSession
import ICE
import Signalling

enum RelayTunnels {
    static func opener(trusting trust: TLSTrust, _ route: NetworkRoute) -> RelayTunnelOpener {
        { server, onEvent in
            ServerTunnel(
                host: server.host, port: server.port, trust: server.transport == .tls ? trust : nil, route: route
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
