public import Foundation

/// A failure of this library or of the service, with the cases of Decart's Swift SDKs. The texts are full sentences that
/// name the cause and the remedy; none holds a key.
public enum DecartError: LocalizedError, Sendable {
    case invalidAPIKey
    case invalidBaseURL(String?)
    case webRTCError(String)
    case websocketError(String)
    case connectionTimeout
    case serverError(String)
    case processingError(String)
    case invalidInput(String)
    case modelNotFound(String)
    case networkError(any Error)
    case queueError(String)

    /// The code of the service's client interface, such as `INVALID_API_KEY`.
    public var errorCode: String {
        switch self {
        case .invalidAPIKey: "INVALID_API_KEY"
        case .invalidBaseURL: "INVALID_BASE_URL"
        case .webRTCError: "WEB_RTC_ERROR"
        case .websocketError: "WEBSOCKET_ERROR"
        case .connectionTimeout: "CONNECTION_TIMEOUT"
        case .serverError: "SERVER_ERROR"
        case .processingError: "PROCESSING_ERROR"
        case .invalidInput: "INVALID_INPUT"
        case .modelNotFound: "MODEL_NOT_FOUND"
        case .networkError: "NETWORK_ERROR"
        case .queueError: "QUEUE_ERROR"
        }
    }

    /// A sentence for users.
    public var errorDescription: String? {
        switch self {
        case .invalidAPIKey: "The API key is missing or was rejected. Check the key, and that it permits the model."
        case .invalidBaseURL(let url):
            "The base URL \(url ?? "") is malformed. It must be a wss, https, ws or http URL with a host."
        case .connectionTimeout: "The connection was not established in time. Check the network and the firewall."
        case .modelNotFound(let text): text
        case .networkError(let error): error.localizedDescription
        case .webRTCError(let text), .websocketError(let text), .serverError(let text), .processingError(let text),
            .invalidInput(let text), .queueError(let text):
            text
        }
    }
}

/// The cause of `DecartError.networkError`.
public struct NetworkFailure: LocalizedError, Sendable {
    /// A sentence that names the cause and the remedy.
    public let text: String
    /// A sentence for users.
    public var errorDescription: String? { text }
}

extension DecartError {
    /// An error of the element by its code. Codes without a case of their own are those of limits that the service sets.
    init(code: String, text: String) {
        switch code {
        case "INVALID_API_KEY": self = .invalidAPIKey
        case "INVALID_BASE_URL": self = .invalidBaseURL(text)
        case "WEB_RTC_ERROR": self = .webRTCError(text)
        case "WEBSOCKET_ERROR": self = .websocketError(text)
        case "CONNECTION_TIMEOUT": self = .connectionTimeout
        case "PROCESSING_ERROR": self = .processingError(text)
        case "INVALID_INPUT", "INVALID_OPTIONS": self = .invalidInput(text)
        case "MODEL_NOT_FOUND": self = .modelNotFound(text)
        case "NETWORK_ERROR": self = .networkError(NetworkFailure(text: text))
        case "QUEUE_ERROR": self = .queueError(text)
        default: self = .serverError(text)
        }
    }
}
