package import DecartProtocol

/// The service's words for the cause of an `error`, and what each means here. Source of the words:
/// `RealtimeWebSocketErrorType` of DecartAI/sdk#144 (2026-05-20), which was not merged, and `capacity` of the JavaScript SDK
/// of October 2026.
package enum ServiceErrorType: String, Sendable, CaseIterable {
    case invalidAPIKey = "invalid_api_key"
    case originNotAllowed = "origin_not_allowed"
    case invalidModel = "invalid_model"
    case removedModel = "removed_model"
    case modelNotAvailableForTrial = "model_not_available_for_trial"
    case insufficientCredits = "insufficient_credits"
    case capacity
    case upstreamCapacity = "upstream_capacity"
    case upstreamRejected = "upstream_rejected"
    case upstreamTimeout = "upstream_timeout"
    case modelServerDisconnected = "model_server_disconnected"
    case modelSetupTimeout = "model_setup_timeout"
    case sessionDurationLimit = "session_duration_limit"
    case sessionNotFound = "session_not_found"
    case serverShutdown = "server_shutdown"
    case moderationViolation = "moderation_violation"
    case internalError = "internal_error"

    package typealias Meaning = (
        code: DecartErrorCode, stage: SessionError.Stage?, isPermanent: Bool, remedy: String
    )

    /// Stage nil: that of the attempt. A CONCURRENCY_LIMIT waits.
    package var meaning: Meaning {
        switch self {
        case .invalidAPIKey: (.invalidAPIKey, .channel, true, "Check the key and whether it permits the model.")
        case .originNotAllowed: (.invalidAPIKey, .channel, true, "Get a client token without allowedOrigins.")
        case .invalidModel: (.modelNotFound, .channel, true, "Correct the property model.")
        case .removedModel: (.modelNotFound, .channel, true, "Set the property model to a newer model.")
        case .modelNotAvailableForTrial: (.modelNotFound, .channel, true, "Set another model, or end the trial.")
        case .insufficientCredits: (.insufficientCredits, .channel, true, "Top up the account's credits.")
        case .capacity, .upstreamCapacity: (.concurrencyLimit, .channel, false, "The service has no capacity free.")
        case .upstreamRejected, .upstreamTimeout, .modelServerDisconnected, .modelSetupTimeout, .serverShutdown:
            (.server, .channel, false, Self.rare)
        case .sessionDurationLimit: (.server, .generation, true, "The session has expired: start another one.")
        case .sessionNotFound: (.server, .channel, true, "Start another session, or get a new subscribe token.")
        case .moderationViolation: (.moderationViolation, nil, true, "Change the prompt, the image or the input.")
        case .internalError: (.server, nil, false, Self.rare)
        }
    }

    private static let rare = "If it persists, try again later, or report it to the service."

    /// Causes that a text names in the same words. No attempt removes them.
    private static let plain: [ServiceErrorType] = [
        .invalidAPIKey, .originNotAllowed, .invalidModel, .removedModel, .modelNotAvailableForTrial,
        .insufficientCredits, .moderationViolation,
    ]

    /// Reads the word; without a known one, the text.
    package init?(_ word: String?, text: String) {
        let type =
            word.flatMap(Self.init(rawValue:))
            ?? Self.plain.first { PermanentErrorText.mentions($0.rawValue, in: text) }
            // decart-python#47: "Server at capacity. Please try again later."
            ?? (PermanentErrorText.mentions("at capacity", in: text) ? .capacity : nil)
        guard let type else { return nil }
        self = type
    }
}

extension SessionError {
    /// Makes the error of a known cause.
    /// - Parameter text: what the service reported, for people.
    package init(reported type: ServiceErrorType, _ text: String, stage: Stage) {
        let meaning = type.meaning
        self.init(
            meaning.code, "\(text.asSentence) \(meaning.remedy)", stage: meaning.stage ?? stage,
            isPermanent: meaning.isPermanent)
        hasSessionEnded = type == .sessionNotFound
    }
}
