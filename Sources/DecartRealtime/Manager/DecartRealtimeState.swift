import GStreamerKit

/// The states of a connection.
public enum DecartRealtimeConnectionState: String, Sendable {
    /// `connect` has not been called.
    case idle
    /// Also in the service's queue.
    case connecting
    /// Media flow.
    case connected
    /// The service generates.
    case generating
    /// The connection is lost, and is made again.
    case reconnecting
    /// `disconnect` has ended the session.
    case disconnected
    /// A permanent failure, or the last retry has failed.
    case error

    /// Media flow.
    public var isConnected: Bool { self == .connected || self == .generating }
    /// A session exists or is being made.
    public var isInSession: Bool { isConnected || self == .connecting || self == .reconnecting }
}

/// The service's own status.
public enum RealtimeServiceStatus: String, Sendable {
    case unknown
    case enteringQueue = "entering-queue"
    case ready
}

/// The state of a session, sent on each change of a part.
public struct DecartRealtimeState: Sendable, Equatable {
    /// The state of the session's connection to the service.
    public var connectionState = DecartRealtimeConnectionState.idle
    /// Whether the session waits in the service's queue, or has left it.
    public var serviceStatus = RealtimeServiceStatus.unknown
    /// nil outside of the service's queue.
    public var queuePosition: Int?
    /// nil if unknown.
    public var queueSize: Int?
    /// Seconds that the service has generated, which are billed; nil while it does not.
    public var generationTick: Double?
    /// The service's id of the session, for its support.
    public var sessionId: String?
    /// The account's sessions are all in use, and the manager waits for one of them to end.
    public var isWaitingForSession = false
    /// The service has muted the video; nothing is sent.
    public var isMutedByService = false
    /// Retries since the last connection that lasted for 30 seconds.
    public var retries = 0

    /// The state before the first connection.
    public init() {}
}

extension DecartRealtimeState {
    init(_ message: Structure) {
        connectionState = message.string("state").flatMap(DecartRealtimeConnectionState.init) ?? .idle
        let status = message.string("service-status") ?? ""
        serviceStatus = RealtimeServiceStatus(rawValue: status) ?? .unknown
        isWaitingForSession = status == "waiting-for-session"
        queuePosition = message.int("queue-position").flatMap { $0 < 0 ? nil : $0 }
        queueSize = message.int("queue-size").flatMap { $0 < 0 ? nil : $0 }
        generationTick = message.double("generation-seconds").flatMap { $0 < 0 ? nil : $0 }
        sessionId = message["session-id"]?.text
        isMutedByService = message["muted-by-service"]?.bool ?? false
        retries = message.int("retries") ?? 0
    }
}

extension GValueBox {
    /// nil also for a NULL string, which `string` serializes otherwise for some types.
    var text: String? { string.flatMap { $0.isEmpty ? nil : $0 } }
}

/// The service's answer to a prompt or an image.
public struct PromptResult: Sendable, Equatable {
    /// The prompt that is in effect.
    public let text: String
    /// No session was connected: the next connection starts with it.
    public let isStored: Bool
    /// Time from the request to the answer.
    public let elapsed: Duration
}

/// Changes that are no part of the state.
public enum RealtimeNotice: Sendable {
    /// The verdict on the connection changed: `unknown`, `excellent`, `good`, `poor` or `critical`, and what limits it.
    case quality(String, limitingFactor: String)
    /// The session expires; `extendSession` can still prevent that.
    case sessionEnding(in: Duration)
    /// A fresh session has replaced the one that was about to expire, without a gap.
    case sessionRenewed(after: Duration)
    /// The session goes on, or retries.
    case warning(DecartError)
    /// A local track has ended or failed; the session goes on with its last frame.
    case localTrackEnded(DecartError?)
}

/// Counters and measurements of a session by the names of the documentation of `stats` (docs/REFERENCE.md), such as
/// `frames-received` or `glass-to-glass-time`.
public struct RealtimeStatistics: Sendable {
    private let structure: Structure

    init(_ structure: Structure) { self.structure = structure }

    /// The names of all values.
    public var names: [String] { structure.fields }
    /// A number; nil for a text, an unknown name, and while the value is unknown. Times are in nanoseconds, bitrates in
    /// bit/s.
    public subscript(name: String) -> Double? {
        guard let value = structure[name] else { return nil }
        let number = value.double ?? value.int.map(Double.init)
        return number.flatMap { $0 == -1 ? nil : $0 }
    }
    /// Any value as text.
    public func text(_ name: String) -> String? { structure[name]?.text }

    /// Video frames handed to the encoder.
    public var framesSent: Int { Int(self["frames-sent"] ?? 0) }
    /// Video frames of the service.
    public var framesReceived: Int { Int(self["frames-received"] ?? 0) }
    /// Bitrate that the encoder aims at, bit/s.
    public var targetBitrate: Int? { value("outbound-rtp", "target-bitrate").flatMap { Int(exactly: $0.rounded()) } }
    /// The time to the service and back, by its last report.
    public var roundTripTime: Duration? { value("remote-inbound-rtp", "round-trip-time").map { .seconds($0) } }

    /// A value of the first connection that has it, the sending one before the receiving one.
    private func value(_ part: String, _ field: String) -> Double? {
        let connections = structure["connections"]?.structure
        let parts = (connections?.fields ?? []).compactMap { connections?[$0]?.structure?[part]?.structure }
        return parts.lazy.compactMap { $0.double(field) }.first
    }
}
