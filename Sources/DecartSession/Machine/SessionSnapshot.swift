package import DecartProtocol

/// Durations of the phases of connecting; nil: not (yet) known.
package struct ConnectPhases: Sendable, Equatable {
    /// Start of the attempt until the control channel is open, with the request for a key.
    package var opened: Duration?
    /// Name lookup, TCP and TLS.
    package var transport: Duration?
    /// HTTP upgrade to WebSocket.
    package var upgrade: Duration?
    /// Sending the initial state until its ack, without time in the queue.
    package var initialAck: Duration?
    /// Time in the service's queue; nil: there was none.
    package var queue: Duration?
    /// Request for a room until its name, without time in the queue.
    package var room: Duration?
    /// Start of the media path, with the join of a room, until it is connected.
    package var media: Duration?
    package var ice: Duration?
    package var dtls: Duration?
    /// Start of the attempt until media are connected.
    package var connected: Duration?
    /// Start of the attempt until the first frame.
    package var firstFrame: Duration?

    package init() {}
}

/// The phases of an attempt to connect and their durations, reported when it is connected and its first prompt and image
/// are acknowledged, or when it has failed.
package struct AttemptReport: Sendable, Equatable {
    package var number: UInt64
    /// The attempt sets up another session beside the running one.
    package var isRenewal: Bool
    /// nil: not decided yet.
    package var transport: MediaTransportKind?
    /// nil: it is connected.
    package var error: SessionError?
    /// Since the start of the attempt.
    package var duration: Duration
    package var phases: ConnectPhases
    /// Bytes of the first image; 0: none is sent.
    package var imageSize: Int
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
    /// Durations of the latest attempt that has connected or failed; nil: none since the start.
    package var lastAttempt: AttemptReport?
    /// Durations of the current attempt.
    package var phases = ConnectPhases()

    package var sessionID: String? { identity?.id }
    package var subscribeToken: SubscribeToken? { identity?.subscribeToken }

    package init() {}
}
