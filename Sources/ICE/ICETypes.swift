package enum ICETransportPolicy: Sendable { case all, relay }

package struct ICEConfiguration: Sendable {
    package var servers: [ICEServer]
    package var policy: ICETransportPolicy
    /// The offerer is controlling (RFC 8445 §6.1.1). The connectivity checks resolve a role conflict.
    package var isControlling: Bool
    /// Opens tunnels for `turns:` servers. If nil, those servers are skipped with a warning.
    package var openTunnel: RelayTunnelOpener?

    package init(
        servers: [ICEServer] = [], policy: ICETransportPolicy = .all, isControlling: Bool,
        openTunnel: RelayTunnelOpener? = nil
    ) {
        self.servers = servers
        self.policy = policy
        self.isControlling = isControlling
        self.openTunnel = openTunnel
    }
}

/// The selected candidate pair.
package struct ICECandidatePair: Sendable, Equatable {
    package struct End: Sendable, Equatable {
        /// "host", "srflx", "prflx" or "relay".
        package var type: String
        /// "192.0.2.1:5000" or "[2001:db8::1]:5000".
        package var address: String

        package init(type: String, address: String) {
            self.type = type
            self.address = address
        }
    }

    package var local: End
    package var remote: End
    /// "udp" or "tcp" for the local candidate. Media between the relay and the peer is always UDP, whatever the
    /// transport to the relay.
    package var transport: String
    package var isRelayed: Bool { local.type == "relay" || remote.type == "relay" }

    package init(local: End, remote: End, transport: String = "udp") {
        self.local = local
        self.remote = remote
        self.transport = transport
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
    /// One sentence without credentials.
    case warning(String)
}

/// Counts of accepted and dropped remote candidates.
package struct ICECounters: Sendable, Equatable {
    package var candidatesAccepted = 0
    package var candidatesMalformed = 0
    package var candidatesMDNS = 0
    package var candidatesUnusable = 0
    /// Candidates beyond `maximumRemoteCandidates`.
    package var candidatesBeyondLimit = 0

    package init() {}
}

package enum ICEError: Error, Equatable, CustomStringConvertible {
    case cannotCreateAgent

    package var description: String {
        switch self {
        case .cannotCreateAgent: "libnice could not create an ICE agent"
        }
    }
}
