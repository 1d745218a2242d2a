// Decides at the end of a run if it has failed: an output without a transformed frame is a failure, unless none was
// requested. Without an error, a program that looks at the exit status takes a black file for a success.
import DecartSession
import GStreamerKit

struct RunOutcome: Sendable {
    /// Why the last attempt of the session failed.
    var cause: SessionError?
    /// An ERROR has been posted.
    var hasFailed = false
    /// The application has ended the session.
    var isDisconnected = false
    /// Frames have come to the element.
    var hasInput = false
    /// A transformed frame has come.
    var hasOutput = false
    var isConnected = false
    /// The session waits in the service's queue.
    var isQueued = false
    /// False for a viewer, in standby, and while the application does not connect or sends no video.
    var wantsOutput = true

    /// The input has ended by itself, not by an EOS that the application sent to the element, and no warning has told why.
    var hasEnded = true

    /// The problem to post when the input has ended; nil: none.
    func problem(sessionID: String?) -> ElementProblem? {
        guard wantsOutput, !hasOutput, !hasFailed, !isDisconnected else { return nil }
        guard hasInput else {
            // Parsers and decoders end without an error if they find nothing that they know.
            guard hasEnded else { return nil }
            return ElementProblem(
                .streamFailed,
                "The input ended without a frame. Check the file or source, and that the elements in front of the pad sink "
                    + "are for its format; decodebin finds them.")
        }
        let text = "The input ended before a transformed frame came"
        guard let cause else {
            guard !isQueued else {
                return ElementProblem(
                    .streamFailed,
                    "\(text): the session waits in the service's queue. Give it an input that lasts longer.")
            }
            let state = isConnected ? "the service had not returned one" : "the session was not connected yet"
            return ElementProblem(
                .streamFailed,
                "\(text): \(state). Give it a longer input; repeat a single image with imagefreeze.")
        }
        let error = SessionError(
            cause.code, "\(text): \(cause.message)", stage: cause.stage, isPermanent: cause.isPermanent,
            httpStatus: cause.httpStatus)
        return ElementProblem(error, sessionID: sessionID)
    }
}
