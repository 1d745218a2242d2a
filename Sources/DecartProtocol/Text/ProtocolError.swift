/// The twelve error codes of the realtime service's client interface, two causes that end a generation, and one
/// that lets a session wait.
package enum DecartErrorCode: String, Sendable, CaseIterable {
    case invalidAPIKey = "INVALID_API_KEY"
    case invalidBaseURL = "INVALID_BASE_URL"
    case webRTC = "WEB_RTC_ERROR"
    case webSocket = "WEBSOCKET_ERROR"
    case connectionTimeout = "CONNECTION_TIMEOUT"
    case server = "SERVER_ERROR"
    case processing = "PROCESSING_ERROR"
    case invalidInput = "INVALID_INPUT"
    case invalidOptions = "INVALID_OPTIONS"
    case modelNotFound = "MODEL_NOT_FOUND"
    case network = "NETWORK_ERROR"
    case queue = "QUEUE_ERROR"
    case insufficientCredits = "INSUFFICIENT_CREDITS"
    case moderationViolation = "MODERATION_VIOLATION"
    case concurrencyLimit = "CONCURRENCY_LIMIT"
}

/// The error of this module: a code of the service's interface, and a sentence for the user. The sentence never
/// contains a key, a token, a URL's query or the text of a received message.
package struct ProtocolError: Error, Sendable, Equatable, CustomStringConvertible {
    package let code: DecartErrorCode
    package let message: String

    package init(_ code: DecartErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { "\(message) (\(code.rawValue))" }
}
