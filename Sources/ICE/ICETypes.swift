import Recovery

package enum ICETransportPolicy: Sendable { case all, relay }

package struct ICEConfiguration: Sendable {
    package var servers: [ICEServer]
    package var policy: ICETransportPolicy
    /// The offerer is controlling (RFC 8445 §6.1.1). The connectivity checks resolve a role conflict.
    package var isControlling: Bool
    /// Opens tunnels for TURN over TLS and TCP. If nil, `turns:` servers are skipped with a warning.
    package var openTunnel: RelayTunnelOpener?
    package var network: ICENetwork
    /// Decides on the address of each remote candidate.
    package var permitsRemote: @Sendable (String) -> Bool = { _ in true }
    /// How often a check without a response is sent again; tests shorten the checks.
    package var checkRetransmissions: UInt32 = 5
    /// Time that UDP has for a pair before TCP is tried.
    package var tcpHeadStart = RecoveryPlan.ICE.tcpHeadStart

    package init(
        servers: [ICEServer] = [], policy: ICETransportPolicy = .all, isControlling: Bool,
        openTunnel: RelayTunnelOpener? = nil, network: ICENetwork = ICENetwork()
    ) {
        self.servers = servers
        self.policy = policy
        self.isControlling = isControlling
        self.openTunnel = openTunnel
        self.network = network
    }
}

/// The part of this host's network that ICE may use.
package struct ICENetwork: Sendable, Equatable {
    /// UDP ports of host candidates, from which requests to STUN and TURN servers leave too; nil: any.
    package var ports: ClosedRange<UInt16>?
    /// nil: all addresses of the host.
    package var endpoint: LocalEndpoint?
    /// Offers passive TCP candidates (RFC 6544) as well, on the same range of ports.
    package var listensForTCP = false

    package init(ports: ClosedRange<UInt16>? = nil, endpoint: LocalEndpoint? = nil) {
        (self.ports, self.endpoint) = (ports, endpoint)
    }

    /// The addresses for candidates, as of now.
    func selection() -> AddressSelection {
        LocalAddresses.selection(of: endpoint?.addresses() ?? LocalAddresses.all())
    }

    /// The address from which a connection to `remote` begins; nil: none of its family.
    func address(towards remote: String) -> String? {
        let chosen = selection().chosen
        let source = LocalAddresses.source(towards: remote)
        return chosen.first { $0 == source } ?? chosen.first { $0.contains(":") == remote.contains(":") }
    }

    /// Why no local address got a socket.
    var failure: String {
        if let endpoint, endpoint.addresses().isEmpty {
            return endpoint.absence
        }
        let selection = selection()
        if selection.chosen.isEmpty, selection.omitted > 0 {
            return "this host has so many addresses that libnice can use none of the \(selection.omitted) for ICE; "
                + "remove unused networks, or run in a network namespace with fewer"
        }
        guard let ports else {
            return "no local address is usable for ICE; check the network interfaces and ice-transport-policy"
        }
        return
            "no UDP port from \(ports.lowerBound) to \(ports.upperBound) is free; widen rtp-port-range"
    }
}

struct ICECredentials: Sendable {
    let usernameFragment: String
    let password: String
}

/// The selected candidate pair.
package struct ICECandidatePair: Sendable, Equatable {
    package struct End: Sendable, Equatable {
        /// "host", "srflx", "prflx" or "relay".
        package var type: String
        /// "192.0.2.1:5000" or "[2001:db8::1]:5000".
        package var address: String
    }

    package var local: End
    package var remote: End
    /// The address of this host that the pair uses; nil: not one of this host's, or unknown.
    package var base: String?
    /// "udp" or "tcp" for the local candidate. Media between the relay and the peer is always UDP, whatever the
    /// transport to the relay.
    package var transport: String
    package var isRelayed: Bool { local.type == "relay" || remote.type == "relay" }

    /// True if the address of `base` is not among those that candidates can have now. False while only loopback is left,
    /// because an interface may be down for a moment and come back with its address.
    package func hasLostItsAddress(among addresses: Set<String>) -> Bool {
        guard let base, !addresses.contains(base) else { return false }
        return addresses.contains { IPAddress($0)?.isLoopback == false }
    }
}

package enum ICEState: Sendable, Equatable {
    case new, gathering, checking, connected, ready
    /// Final: no other state follows.
    case failed
}

package enum ICEEvent: Sendable, Equatable {
    /// "candidate:…", without "a=" and without CR LF.
    case localCandidate(String)
    case gatheringComplete
    case stateChanged(ICEState)
    /// The remote peer answered a consent check.
    case consentConfirmed(roundTrip: Duration)
    /// Consent checks cannot reach the selected pair, which a TURN server relays; `failed` may follow.
    case consentUnavailable
    /// One sentence without credentials.
    case warning(String)
}

/// Counts of accepted and dropped remote candidates, and of the TURN servers in use.
package struct ICECounters: Sendable, Equatable {
    package var candidatesAccepted = 0
    package var candidatesMalformed = 0
    package var candidatesMDNS = 0
    package var candidatesUnusable = 0
    /// Candidates beyond `maximumRemoteCandidates`.
    package var candidatesBeyondLimit = 0
    /// TURN servers that were asked for an allocation: without those that are skipped.
    package var turnServers = 0
}

package enum ICEError: Error, Equatable, CustomStringConvertible {
    case cannotCreateAgent
    case tooManyOpenFiles
    case noThread

    package var description: String {
        switch self {
        case .cannotCreateAgent: "libnice could not create an ICE agent"
        case .tooManyOpenFiles: "too many open files for an ICE agent; raise the limit"
        case .noThread: "no thread is left for an ICE agent; raise the limit"
        }
    }
}
