package import DecartProtocol

/// Why a session, an attempt or a request failed.
/// The message is for the user: it names host and cause, and never a key, a token or a URL's query.
package struct SessionError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The part of the connection that failed.
    package enum Stage: String, Sendable, CaseIterable {
        case configuration, resolve, connect, tls, upgrade, channel, queue, initialState, media, generation
    }

    package var code: DecartErrorCode
    package var message: String
    package var stage: Stage
    /// Trying again is pointless.
    package var isPermanent: Bool
    /// The status of a refused upgrade.
    package var httpStatus: Int?
    /// The service asks to be left alone for so long (Retry-After).
    package var retryAfter: Duration?

    package init(
        _ code: DecartErrorCode, _ message: String, stage: Stage, isPermanent: Bool = false, httpStatus: Int? = nil
    ) {
        self.code = code
        self.message = message
        self.stage = stage
        self.isPermanent = isPermanent
        self.httpStatus = httpStatus
    }

    package var description: String { "\(message) (\(code.rawValue), \(stage.rawValue))" }
}

extension SessionError {
    /// From the service's own words.
    static func service(_ words: String, stage: Stage) -> SessionError {
        let text = words.printable(limit: 500)
        let code: DecartErrorCode =
            if PermanentErrorText.concernsKey(words) {
                .invalidAPIKey
            } else if stage == .queue {
                .queue
            } else {
                .server
            }
        return SessionError(
            code, "The service says: \(text)", stage: stage, isPermanent: PermanentErrorText.matches(words))
    }
}

extension String {
    /// A peer's words, safe to show: no control characters, bounded.
    package func printable(limit: Int) -> String {
        let scalars = unicodeScalars.prefix(limit).map { scalar -> Character in
            scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) ? " " : Character(scalar)
        }
        return String(scalars) + (unicodeScalars.count > limit ? "…" : "")
    }
}

extension SessionIdentity {
    /// The service's names become properties and go into messages and tokens.
    var printable: SessionIdentity {
        SessionIdentity(
            id: id.printable(limit: 256), serverIP: serverIP?.printable(limit: 64), serverPort: serverPort,
            roomName: roomName?.printable(limit: 256))
    }
}
