// TURN over TLS: the ICE agent requests a tunnel, and the target Signalling, which has TLS, opens it.
import DecartSession
import ICE
import Signalling

enum RelayTunnels {
    static func opener(trusting trust: TLSTrust) -> RelayTunnelOpener {
        { server, onEvent in
            Tunnel(
                TLSTunnel(host: server.host, port: server.port, trust: trust) { event in
                    switch event {
                    case .listening(let port): onEvent(.open(port: port))
                    case .failed(let error): onEvent(.failed(error.message))
                    }
                })
        }
    }

    private struct Tunnel: RelayTunnel {
        let pipe: TLSTunnel
        init(_ pipe: TLSTunnel) { self.pipe = pipe }
        func close() { pipe.close() }
    }
}
