// libnice has no TLS. Where a TURN server is to be reached through it (`turns:`), somebody else holds a tunnel: libnice
// speaks plain TURN over TCP to a port of this machine, and the tunnel carries the bytes on.

/// A byte pipe through verified TLS to one TURN server.
package protocol RelayTunnel: Sendable {
    /// Returns at once; whoever is connected is cut off.
    func close()
}

package enum RelayTunnelEvent: Sendable {
    /// On 127.0.0.1; at most once, and before any failure of a connection.
    case open(port: UInt16)
    /// One sentence, without credentials. Instead of `open`, or later for the connections that came through.
    case failed(String)
}

/// Opens a tunnel and returns at once; the events may come on any thread.
package typealias RelayTunnelOpener =
    @Sendable (_ server: ICEServer, _ onEvent: @escaping @Sendable (RelayTunnelEvent) -> Void) -> any RelayTunnel
