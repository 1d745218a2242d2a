/// Passes STUN and TURN servers to libnice, address literals at once and host names after they resolve. Belongs to the
/// network thread. It only decides when and with which address a server is added; ICEAgentCore makes the libnice calls.
// @unchecked: used only on the network thread.
package final class ServerSetup: @unchecked Sendable {
    /// The longest delay of gathering for name lookups: libnice accepts a STUN server only before gathering starts.
    package static let headStart = Duration.milliseconds(250)
    /// libnice's own limit.
    static let maximumTurnServers = 8

    package struct Actions {
        var setSTUN: (_ host: String, _ port: UInt16) -> Void
        var addTURN: (_ server: ICEServer, _ address: String, _ port: UInt16) -> Void
        /// Opens a tunnel, whose result arrives in `tunnelSettled`. If nil, `turns:` servers are skipped.
        var openTunnel: ((_ server: ICEServer) -> Void)?
        var warn: (String) -> Void
        /// Called once, when gathering may start.
        var begin: () -> Void
        /// Called once, never before `begin`: no server follows.
        var finish: () -> Void

        package init(
            setSTUN: @escaping (_ host: String, _ port: UInt16) -> Void,
            addTURN: @escaping (_ server: ICEServer, _ address: String, _ port: UInt16) -> Void,
            openTunnel: ((_ server: ICEServer) -> Void)?, warn: @escaping (String) -> Void,
            begin: @escaping () -> Void, finish: @escaping () -> Void
        ) {
            self.setSTUN = setSTUN
            self.addTURN = addTURN
            self.openTunnel = openTunnel
            self.warn = warn
            self.begin = begin
            self.finish = finish
        }
    }

    private let network: NetworkThread
    private let lookup: HostLookup
    private let hasIPv4: Bool
    private let hasIPv6: Bool
    private let tunnelsTCP: Bool
    private var actions: Actions?
    private var stun: ICEServer?
    private var turnCount = 0
    private var pending = 0
    /// The servers whose tunnel is being opened.
    private var tunnelled: [ICEServer] = []
    private var hasBegun = false
    private var timer: NetworkTimer?

    package init(network: NetworkThread, hasIPv4: Bool, hasIPv6: Bool, tunnelsTCP: Bool = false, actions: Actions) {
        self.network = network
        lookup = HostLookup(network: network)
        self.hasIPv4 = hasIPv4
        self.hasIPv6 = hasIPv6
        self.tunnelsTCP = tunnelsTCP
        self.actions = actions
    }

    package func start(_ servers: [ICEServer]) {
        var names: [ICEServer] = []
        for server in servers where accept(server) {
            if server.transport == .tls || server.kind == .turn && server.transport == .tcp && tunnelsTCP {
                tunnelled.append(server)
            } else if IPAddress(server.host) != nil {
                announce(server, addresses: [server.host])
            } else {
                names.append(server)
            }
        }
        pending = names.count + tunnelled.count
        guard pending > 0 else {
            begin()
            return
        }
        for server in tunnelled { actions?.openTunnel?(server) }
        for server in names {
            lookup.resolve(server.host) { [weak self] addresses in self?.resolved(server, addresses) }
        }
        timer = network.schedule(after: Self.headStart) { [weak self] in self?.begin() }
    }

    /// Stops everything; no action is called afterwards.
    package func cancel() {
        timer?.cancel()
        timer = nil
        actions = nil
        lookup.cancel()
    }

    private func accept(_ server: ICEServer) -> Bool {
        switch (server.kind, server.transport) {
        case (.turn, .tls) where actions?.openTunnel == nil:
            // Do not fall back to plain TCP: the user requires TLS.
            actions?.warn("\(server.withoutAddress) is skipped: TURN over TLS is not available in this connection")
            return false
        case (.stun, _):
            guard stun == nil else {
                actions?.warn("\(server.withoutAddress) is skipped: only one STUN server can be used")
                return false
            }
            stun = server
            return true
        case (.turn, _):
            guard turnCount < Self.maximumTurnServers else {
                actions?.warn("\(server.withoutAddress) is skipped: \(Self.maximumTurnServers) TURN servers are used")
                return false
            }
            turnCount += 1
            return true
        }
    }

    private func resolved(_ server: ICEServer, _ addresses: [String]) {
        guard actions != nil else { return }
        pending -= 1
        if addresses.isEmpty {
            actions?.warn("\(server.withoutAddress) is skipped: its host name cannot be resolved")
        } else {
            announce(server, addresses: addresses)
        }
        finished()
    }

    /// - Parameter port: the tunnel's local port; nil if the tunnel failed. A failure after it was opened is ignored
    ///   here.
    package func tunnelSettled(_ server: ICEServer, port: UInt16?) {
        guard actions != nil, let index = tunnelled.firstIndex(of: server) else { return }
        tunnelled.remove(at: index)
        pending -= 1
        if let port { actions?.addTURN(server, "127.0.0.1", port) }
        finished()
    }

    private func finished() {
        guard pending == 0 else { return }
        if hasBegun { actions?.finish() } else { begin() }
    }

    /// Adds the server with one of its addresses, of a family that this host has.
    private func announce(_ server: ICEServer, addresses: [String]) {
        let usable = addresses.first { text in
            guard let address = IPAddress(text) else { return false }
            return address.isIPv6 ? hasIPv6 : hasIPv4
        }
        guard let address = usable else {
            actions?.warn("\(server.withoutAddress) is skipped: this host has no address of its family")
            return
        }
        switch server.kind {
        case .turn: actions?.addTURN(server, address, server.port)
        case .stun:
            if hasBegun {
                actions?.warn("\(server.withoutAddress) is skipped: the lookup of its host name took too long")
            } else {
                actions?.setSTUN(address, server.port)
            }
        }
    }

    private func begin() {
        guard !hasBegun else { return }
        hasBegun = true
        timer?.cancel()
        timer = nil
        actions?.begin()
        if pending == 0 { actions?.finish() }
    }
}
