package import EventLoopThreads
/// Passes STUN and TURN servers to libnice, address literals at once and host names after they resolve. Belongs to the
/// network thread. It only decides when and with which address a server is added; ICEAgentCore makes the libnice calls.
// @unchecked: used only on the network thread.
package final class ServerSetup: @unchecked Sendable {
    /// The longest delay of gathering for name lookups: libnice accepts a STUN server only before gathering starts.
    package static let headStart = Duration.milliseconds(250)
    /// libnice's own limit.
    static let maximumTurnServers = 8
    /// A lookup may take so long: no candidate follows later.
    private static let lookupLimit = ICEAgentCore.gatheringLimit

    package enum Action: Sendable, Equatable {
        case setSTUN(host: String, port: UInt16)
        case addTURN(ICEServer, address: String, port: UInt16)
        /// Opens a tunnel at this loopback address. Its result arrives in `tunnelSettled`.
        case openTunnel(ICEServer, address: String)
        case warn(String)
        /// Comes once, when gathering may start.
        case begin
        /// Comes once, never before `begin`: no server follows. Not before `add`, if that is awaited.
        case finish
    }

    private let network: NetworkThread
    private let hasIPv4: Bool
    private let hasIPv6: Bool
    private let opensTunnels: Bool
    private let permits: (String) -> Bool
    private var perform: ((Action) -> Void)?
    private var stun: ICEServer?
    private var turnCount = 0
    /// The servers whose name is being looked up, or whose tunnel is being opened.
    private var pending: [ICEServer] = []
    private var hasBegun = false
    private var awaitsMore = false
    private var timer: NetworkTimer?
    private var lookupTimer: NetworkTimer?

    /// - Parameters:
    ///   - opensTunnels: without tunnels, `turns:` servers are skipped.
    ///   - permits: decides on each address of the servers that a peer names, also on those of their names.
    package init(
        network: NetworkThread, hasIPv4: Bool, hasIPv6: Bool, opensTunnels: Bool,
        permits: @escaping (String) -> Bool = { _ in true },
        perform: @escaping (Action) -> Void
    ) {
        self.network = network
        self.hasIPv4 = hasIPv4
        self.hasIPv6 = hasIPv6
        self.opensTunnels = opensTunnels
        self.permits = permits
        self.perform = perform
    }

    /// - Parameter awaitsMore: `add` follows.
    package func start(_ servers: [ICEServer], awaitsMore: Bool = false) {
        self.awaitsMore = awaitsMore
        announce(servers)
        guard !pending.isEmpty else { return begin() }
        timer = network.schedule(after: Self.headStart) { [weak self] in self?.begin() }
    }

    /// Adds the last servers, after `start`.
    package func add(_ servers: [ICEServer]) {
        guard awaitsMore, perform != nil else { return }
        awaitsMore = false
        announce(servers)
        if pending.isEmpty { finished() }
    }

    private func announce(_ servers: [ICEServer]) {
        var (tunnelled, named): ([ICEServer], [ICEServer]) = ([], [])
        for server in servers where accept(server) {
            if isTunnelled(server) {
                tunnelled.append(server)
            } else if IPAddress(server.host) != nil {
                announce(server, addresses: [server.host])
            } else {
                named.append(server)
            }
        }
        pending += tunnelled + named
        for server in tunnelled { perform?(.openTunnel(server, address: loopback)) }
        for server in named {
            HostLookup.resolve(server.host) { [weak self, network] result in
                let addresses = (try? result.get())?.map(\.ip) ?? []
                network.async { [weak self] in self?.resolved(server, addresses) }
            }
        }
        guard !named.isEmpty else { return }
        let names = pending.filter { !isTunnelled($0) }
        lookupTimer?.cancel()
        lookupTimer = network.schedule(after: Self.lookupLimit) { [weak self] in
            for server in names { self?.resolved(server, []) }
        }
    }

    private func isTunnelled(_ server: ICEServer) -> Bool {
        server.transport == .tls || server.kind == .turn && server.transport == .tcp && opensTunnels
    }

    /// libnice connects to servers of a family that this host has.
    private var loopback: String { hasIPv4 ? "127.0.0.1" : "::1" }

    /// Stops everything; no action is called afterwards.
    package func cancel() {
        timer?.cancel()
        lookupTimer?.cancel()
        perform = nil
    }

    private func accept(_ server: ICEServer) -> Bool {
        switch (server.kind, server.transport) {
        case (.turn, .tls) where !opensTunnels:
            // Do not fall back to plain TCP: the user requires TLS.
            warn("\(server.withoutAddress) is skipped: TURN over TLS is not available in this connection")
            return false
        case (.stun, _):
            guard stun == nil else {
                warn("\(server.withoutAddress) is skipped: only one STUN server can be used")
                return false
            }
            stun = server
            return true
        case (.turn, _):
            guard turnCount < Self.maximumTurnServers else {
                warn("\(server.withoutAddress) is skipped: \(Self.maximumTurnServers) TURN servers are used")
                return false
            }
            turnCount += 1
            return true
        }
    }

    private func warn(_ text: String) { perform?(.warn(text)) }

    private func resolved(_ server: ICEServer, _ addresses: [String]) {
        guard take(server) else { return }
        if addresses.isEmpty {
            warn("\(server.withoutAddress) is skipped: its host name cannot be resolved")
        } else {
            announce(server, addresses: addresses)
        }
        finished()
    }

    /// - Parameter port: the tunnel's local port; nil if the tunnel failed. A failure after it was opened is ignored
    ///   here.
    package func tunnelSettled(_ server: ICEServer, port: UInt16?) {
        guard take(server) else { return }
        if let port { perform?(.addTURN(server, address: loopback, port: port)) }
        finished()
    }

    /// Returns false if nothing of this server is pending: its result came before, or came too late.
    private func take(_ server: ICEServer) -> Bool {
        guard perform != nil, let index = pending.firstIndex(of: server) else { return false }
        pending.remove(at: index)
        return true
    }

    private func finished() {
        guard pending.isEmpty else { return }
        lookupTimer?.cancel()
        if !hasBegun { begin() } else if !awaitsMore { perform?(.finish) }
    }

    /// Adds the server with one of its addresses, of a family that this host has.
    private func announce(_ server: ICEServer, addresses: [String]) {
        let permitted = addresses.filter { !server.isNamedByPeer || permits($0) }
        guard !permitted.isEmpty else {
            return warn(
                "\(server.withoutAddress) is skipped: the service may not name servers on this machine or its link")
        }
        let usable = permitted.first { text in
            guard let address = IPAddress(text) else { return false }
            return address.isIPv6 ? hasIPv6 : hasIPv4
        }
        guard let address = usable else {
            warn("\(server.withoutAddress) is skipped: this host has no address of its family")
            return
        }
        switch server.kind {
        case .turn: perform?(.addTURN(server, address: address, port: server.port))
        case .stun:
            if hasBegun {
                warn("\(server.withoutAddress) is skipped: the lookup of its host name took too long")
            } else {
                perform?(.setSTUN(host: address, port: server.port))
            }
        }
    }

    private func begin() {
        guard !hasBegun else { return }
        hasBegun = true
        timer?.cancel()
        perform?(.begin)
        if pending.isEmpty, !awaitsMore { perform?(.finish) }
    }
}
