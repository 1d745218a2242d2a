/// State of a session, named as in the service's guide.
package enum SessionState: String, Sendable, CaseIterable {
    case idle, connecting, connected, generating, reconnecting, disconnected, error

    /// True if frames can flow.
    package var isConnected: Bool { self == .connected || self == .generating }

    /// True if a session exists or is being set up.
    package var isInSession: Bool {
        switch self {
        case .connecting, .connected, .generating, .reconnecting: true
        case .idle, .disconnected, .error: false
        }
    }
}

/// Status that the service reports about itself, or shows by its answers.
package enum ServiceStatus: String, Sendable, CaseIterable {
    case unknown
    case enteringQueue = "entering-queue"
    case ready
    /// The account's sessions are all in use.
    case waitingForSession = "waiting-for-session"

    /// Parses the text of a `status` message: searches for known phrases, ignoring case.
    package init(statusText: String) {
        let text = statusText.lowercased()
        if text.contains("ready") {
            self = .ready
        } else if text.contains("entering queue") {
            self = .enteringQueue
        } else {
            self = .unknown
        }
    }
}
