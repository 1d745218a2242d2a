// The transport with which attempts start, as a value: set by the application or, with `auto`, detected from the
// service's messages or their absence in this attempt or in earlier ones.
import DecartProtocol

struct TransportDetection: Sendable {
    private let choice: TransportChoice
    /// The transport that `auto` detected from a message of the service or from an established connection. Later
    /// attempts start with it, until one of them fails because of it.
    private var detected: MediaTransportKind?

    init(_ choice: TransportChoice, known: MediaTransportKind?) {
        self.choice = choice
        detected = known
    }

    var isAutomatic: Bool { choice == .auto }

    /// Transport of the next attempt; nil: not known yet.
    var first: MediaTransportKind? {
        switch choice {
        case .auto: detected
        case .livekit: .livekit
        case .webrtc: .webrtc
        }
    }

    /// - Parameter transport: nil if the detected transport may be the reason for a failure.
    /// - Returns: true if the stored transport has changed.
    mutating func store(_ transport: MediaTransportKind?) -> Bool {
        guard isAutomatic, detected != transport else { return false }
        detected = transport
        return true
    }
}
