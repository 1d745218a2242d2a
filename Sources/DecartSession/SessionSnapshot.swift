package import DecartProtocol

/// How long the parts of connecting took; nil: not (yet) known.
package struct ConnectPhases: Sendable, Equatable {
    /// Name lookup, TCP and TLS.
    package var transport: Duration?
    /// HTTP upgrade to WebSocket.
    package var upgrade: Duration?
    /// From the open channel, without any queue, to the ack of the initial state.
    package var initialAck: Duration?
    package var ice: Duration?
    package var dtls: Duration?
    /// From the start of the attempt to connected media.
    package var connected: Duration?
    /// From the start of the attempt to the first frame.
    package var firstFrame: Duration?

    package init() {}
}

/// What an application may know about a session at one moment.
package struct SessionSnapshot: Sendable, Equatable {
    package var state: SessionState = .idle
    package var serviceStatus: ServiceStatus = .unknown
    /// nil: not in a queue, or not said.
    package var queue: QueuePosition?
    package var identity: SessionIdentity?
    /// The media path of the current attempt; nil: not decided yet.
    package var transport: TransportGeneration?
    /// How long the service lets the present session last; nil: as long as it likes, or it does not say.
    package var granted: Duration?
    /// Seconds of generation billed, as last told.
    package var generationSeconds: Double?
    /// Stays until the next start or connection.
    package var lastError: SessionError?
    /// Retries begun since the last stable connection.
    package var retries = 0
    /// Of the current attempt.
    package var phases = ConnectPhases()

    package var sessionID: String? { identity?.id }
    package var subscribeToken: SubscribeToken? { identity?.subscribeToken }

    package init() {}
}
