/// Where a session is, in the words of the service's guide.
package enum SessionState: String, Sendable, CaseIterable {
    case idle, connecting, connected, generating, reconnecting, disconnected, error

    /// Frames can flow.
    package var isConnected: Bool { self == .connected || self == .generating }

    /// A session exists or is being made.
    package var isInSession: Bool {
        switch self {
        case .connecting, .connected, .generating, .reconnecting: true
        case .idle, .disconnected, .error: false
        }
    }
}

/// What the service says about itself.
package enum ServiceStatus: String, Sendable, CaseIterable {
    case unknown
    case enteringQueue = "entering-queue"
    case ready

    /// From the text of a `status` message: what it contains decides, whatever its case.
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
