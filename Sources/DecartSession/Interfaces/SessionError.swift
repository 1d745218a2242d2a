package import DecartProtocol
import Recovery

/// The failure of a session, an attempt or a request.
/// The message is for the user: it names host and cause, and never contains a key, a token or a URL's query.
package struct SessionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The part of the connection that failed.
    package enum Stage: String, Sendable, CaseIterable {
        case configuration, resolve, connect, tls, upgrade, channel, queue, initialState, media, generation
    }

    package var code: DecartErrorCode
    package var message: String
    package var stage: Stage
    /// True if a retry is pointless.
    package var isPermanent: Bool
    /// The service does not know the session, which has ended if it was known before.
    package var hasSessionEnded = false
    /// HTTP status of a rejected upgrade.
    package var httpStatus: Int?
    /// The text of a rejected upgrade's body, printable and limited; nil: there was none.
    package var refusal: String?
    /// Wait that the service requests before a retry (Retry-After, `retry_after`).
    package var retryAfter: Duration?
    /// Longest wait that counts: a service, or a middlebox on the way, may ask for any (RFC 9110 §10.2.3 makes it advice).
    package static let longestRequestedWait = RecoveryPlan.Session.longestRequestedWait
    /// The wait that counts; zero: none was requested.
    package var requestedWait: Duration { min(max(retryAfter ?? .zero, .zero), Self.longestRequestedWait) }

    package init(
        _ code: DecartErrorCode, _ message: String, stage: Stage, isPermanent: Bool = false, httpStatus: Int? = nil
    ) {
        self.code = code
        self.message = message
        self.stage = stage
        self.isPermanent = isPermanent
        self.httpStatus = httpStatus
    }

    /// Changes the texts of the error.
    func mappingText(_ change: (String) -> String) -> SessionError {
        var copy = self
        (copy.message, copy.refusal) = (change(message), refusal.map(change))
        return copy
    }

    package var description: String { "\(message) (\(code.rawValue), \(stage.rawValue))" }
}

extension SessionError {
    /// Makes an error from the service's own error text.
    /// - Parameter type: nil: the text says nothing else about the cause.
    package static func service(_ text: String, type: ServiceErrorType?, stage: Stage) -> SessionError {
        let shown = "The service reported an error: " + text.printable(limit: 500)
        if let type { return SessionError(reported: type, shown, stage: stage) }
        let code: DecartErrorCode =
            if PermanentErrorText.concernsKey(text) {
                .invalidAPIKey
            } else if ConcurrencyLimitText.matches(text) {
                .concurrencyLimit
            } else if stage == .queue {
                .queue
            } else {
                .server
            }
        return SessionError(
            code, code == .concurrencyLimit ? "\(shown.asSentence) \(accountIsFull)" : shown, stage: stage,
            isPermanent: PermanentErrorText.matches(text))
    }

    /// Follows the service's text in a message.
    package static let accountIsFull =
        "The account's sessions are all in use: end another one, or raise the account's limit."
}

extension SessionIdentity {
    /// Makes the service's names printable, because they become properties and go into messages and tokens.
    var printable: SessionIdentity {
        SessionIdentity(
            id: id.printable(limit: 256), serverIP: serverIP?.printable(limit: 64), serverPort: serverPort,
            roomName: roomName?.printable(limit: 256), hasFrameTiming: hasFrameTiming)
    }
}
