// libnice has no TLS. For a `turns:` server a tunnel outside this target provides it: libnice uses TURN over TCP to a
// local port, and the tunnel forwards the bytes through TLS. TURN over TCP has one too: libnice's own support for proxies
// resolves no name there and reports no cause, and it reads without limit what a server sends.

/// A byte pipe to one TURN server, through verified TLS for `turns:`.
package protocol RelayTunnel: Sendable {
    /// Returns at once and disconnects all connections.
    func close()
}

package enum RelayTunnelEvent: Sendable {
    /// The tunnel listens on this port. Comes at most once, and before any failure of a connection.
    case open(port: UInt16)
    /// One sentence without credentials. Comes instead of `open`, or later if a connection through the tunnel fails.
    case failed(String)
}

/// Opens a tunnel at a loopback address and returns at once. Events may arrive on any thread.
package typealias RelayTunnelOpener =
    @Sendable (
        _ server: ICEServer, _ address: String, _ onEvent: @escaping @Sendable (RelayTunnelEvent) -> Void
    ) -> any RelayTunnel
