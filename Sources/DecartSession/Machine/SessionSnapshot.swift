package import DecartProtocol

/// Durations of the phases of connecting; nil: not (yet) known.
package struct ConnectPhases: Sendable, Equatable {
    /// Name lookup, TCP and TLS.
    package var transport: Duration?
    /// HTTP upgrade to WebSocket.
    package var upgrade: Duration?
    /// Sending the initial state until its ack, without time in the queue.
    package var initialAck: Duration?
    package var ice: Duration?
    package var dtls: Duration?
    /// Start of the attempt until media are connected.
    package var connected: Duration?
    /// Start of the attempt until the first frame.
    package var firstFrame: Duration?
}

/// The state of a session that an application may read.
package struct SessionSnapshot: Sendable, Equatable {
    package var state: SessionState = .idle
    package var serviceStatus: ServiceStatus = .unknown
    /// nil: not in a queue, or the position is unknown.
    package var queue: QueuePosition?
    package var identity: SessionIdentity?
    /// Media path of the current attempt; nil: not decided yet.
    package var transport: MediaTransportKind?
    /// Longest session that the service grants; nil: unlimited or unknown.
    package var granted: Duration?
    /// The service has muted our video track.
    package var isMutedByService = false
    /// Why no video of the service comes although the path lives; nil: it should come.
    package var hold: MediaHold?
    /// Seconds billed, as last reported by the service; nil: it does not generate.
    package var generationSeconds: Double?
    /// Seconds billed in all attempts so far.
    package var billedSeconds = 0.0
    /// Kept until the next start or connection.
    package var lastError: SessionError?
    /// Retries begun since the last stable connection.
    package var retries = 0
    /// Media were missing on a path that seemed to live: it may lose long packets, so the next attempts send shorter ones.
    package var sendsSmallPackets = false
    /// Durations of the current attempt.
    package var phases = ConnectPhases()

    package var sessionID: String? { identity?.id }
    package var subscribeToken: SubscribeToken? { identity?.subscribeToken }

    package init() {}
}
