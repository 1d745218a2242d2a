import DecartElements
import GStreamerKit

/// The elements in this process.
enum Elements {
    private static let failure: DecartError? = {
        GStreamerRuntime.initialise()
        guard !RegisteredElementClass.isTaken(typeName: "GstDecartTransform") else {
            return .processingError(
                "This process has loaded the plugin libgstdecart.so, whose elements have the same names as those of "
                    + "DecartRealtime. Use DecartRealtime before anything makes one of the plugin's elements, or use the "
                    + "plugin alone.")
        }
        guard DecartElements.register(in: nil) else {
            return .processingError("GStreamer does not accept the elements of DecartRealtime.")
        }
        return nil
    }()

    /// Initialises GStreamer and registers the elements, once in a process.
    static func register() throws(DecartError) { if let failure { throw failure } }
}

extension DecartError {
    init(_ error: GStreamerError) { self = .processingError("\(error.message).") }

    /// The error or warning of a message; nil for another message.
    init?(_ message: Message) {
        guard let problem = message.problem else { return nil }
        guard let details = problem.details, details.name == "decart-error", let code = details.string("code") else {
            self = .processingError(problem.text)
            return
        }
        self.init(code: code, text: problem.text)
    }
}
