// The transport of the current attempt, as a value: set by the application or, with `auto`, taken from earlier attempts
// and from the service's messages or their absence.
import DecartProtocol

struct TransportDetection: Sendable {
    private let choice: TransportChoice
    /// The transport that `auto` detected from a message of the service or from an established connection. Later
    /// attempts start with it, until one of them fails because of it.
    private var detected: MediaTransportKind?
    /// Transport of the current attempt; nil: not decided yet.
    private(set) var current: MediaTransportKind?
    /// `current` comes from earlier attempts or sessions; nothing in this attempt has confirmed it yet.
    private(set) var isPresumed = false

    init(_ choice: TransportChoice, known: MediaTransportKind?) {
        self.choice = choice
        detected = known
    }

    mutating func beginAttempt() {
        current =
            switch choice {
            case .auto: detected
            case .livekit: .livekit
            case .webrtc: .webrtc
            }
        isPresumed = choice == .auto && detected != nil
    }

    /// - Returns: true if this is news.
    mutating func confirm(_ transport: MediaTransportKind?) -> Bool {
        isPresumed = false
        return store(transport)
    }

    /// The presumed transport may be the reason for a failure.
    /// - Returns: true if this is news.
    mutating func forget() -> Bool { store(nil) }

    private mutating func store(_ transport: MediaTransportKind?) -> Bool {
        guard choice == .auto, detected != transport else { return false }
        detected = transport
        return true
    }

    /// Uses a transport for the current attempt.
    /// - Returns: false if nothing changes.
    mutating func choose(_ transport: MediaTransportKind) -> Bool {
        guard choice == .auto, current != transport else { return false }
        current = transport
        return true
    }
}
