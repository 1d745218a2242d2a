// Maps a session's error to an error of GStreamer's bus.
import DecartProtocol
import DecartSession
import GStreamerKit

extension ElementProblem {
    /// The message says in one sentence what to do, the debug text names code and stage, and the structure
    /// `decart-error` serves programs.
    init(_ error: SessionError, sessionID: String?) {
        let details = Structure(
            "decart-error", ("code", GValueBox(error.code.rawValue)), ("stage", GValueBox(error.stage.rawValue)),
            ("permanent", GValueBox(error.isPermanent)), ("http-status", error.httpStatus.map { GValueBox(int: $0) }),
            ("session-id", sessionID.map { GValueBox($0) }))
        self.init(
            Self.code(for: error), error.message.asSentence,
            debug: "\(error.code.rawValue) in stage \(error.stage.rawValue)",
            details: details)
    }

    private static func code(for error: SessionError) -> Code {
        if error.httpStatus == 401 || error.httpStatus == 403 { return .resourceNotAuthorized }
        switch error.code {
        case .invalidAPIKey: return .resourceNotAuthorized
        case .invalidBaseURL, .invalidInput, .invalidOptions: return .resourceSettings
        case .webRTC: return error.stage == .media ? .resourceRead : .resourceFailed
        case .webSocket, .connectionTimeout, .network: return .resourceOpenReadWrite
        case .server, .processing, .insufficientCredits, .moderationViolation: return .resourceFailed
        case .modelNotFound: return .resourceNotFound
        case .queue, .concurrencyLimit: return .resourceBusy
        }
    }
}
