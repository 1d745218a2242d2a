internal import CGStreamer

/// The content of an error or warning message: GStreamer's domain and code, a sentence for the user, and details for a
/// program.
public struct ElementProblem: Error {
    /// GStreamer's domain and code.
    public enum Code: Sendable, Equatable {
        case resourceNotFound, resourceBusy, resourceFailed, resourceOpenReadWrite, resourceNotAuthorized, resourceRead
        case resourceSettings, streamFormat, streamDecode, streamFailed
        case coreMissingPlugin, coreNegotiation, coreClock

        var raw: (domain: GQuark, code: Int32) {
            switch self {
            case .resourceNotFound: (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_NOT_FOUND.rawValue))
            case .resourceBusy: (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_BUSY.rawValue))
            case .resourceFailed: (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_FAILED.rawValue))
            case .resourceOpenReadWrite:
                (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_OPEN_READ_WRITE.rawValue))
            case .resourceNotAuthorized: (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_NOT_AUTHORIZED.rawValue))
            case .resourceRead: (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_READ.rawValue))
            case .resourceSettings: (gst_resource_error_quark(), Int32(GST_RESOURCE_ERROR_SETTINGS.rawValue))
            case .streamFormat: (gst_stream_error_quark(), Int32(GST_STREAM_ERROR_FORMAT.rawValue))
            case .streamDecode: (gst_stream_error_quark(), Int32(GST_STREAM_ERROR_DECODE.rawValue))
            case .streamFailed: (gst_stream_error_quark(), Int32(GST_STREAM_ERROR_FAILED.rawValue))
            case .coreMissingPlugin: (gst_core_error_quark(), Int32(GST_CORE_ERROR_MISSING_PLUGIN.rawValue))
            case .coreClock: (gst_core_error_quark(), Int32(GST_CORE_ERROR_CLOCK.rawValue))
            case .coreNegotiation: (gst_core_error_quark(), Int32(GST_CORE_ERROR_NEGOTIATION.rawValue))
            }
        }
    }

    /// Domain and code of the message's `GError`.
    public let code: Code
    /// One full sentence that names the remedy. It must never hold a secret.
    public let text: String
    /// More about the cause, for developers; it must not hold a secret either.
    public let debug: String
    /// Fields for programs; nil: none.
    public let details: Structure?

    /// `text` is one full sentence, which names the remedy.
    public init(_ code: Code, _ text: String, debug: String = "", details: Structure? = nil) {
        self.code = code
        self.text = text
        self.debug = debug
        self.details = details
    }
}

extension Element {
    /// Posts an ERROR, after which the pipeline is expected to stop. Call it without a lock.
    public func postError(_ problem: ElementProblem) { post(problem, GST_MESSAGE_ERROR) }
    /// Posts a WARNING. Call it without a lock.
    public func postWarning(_ problem: ElementProblem) { post(problem, GST_MESSAGE_WARNING) }

    /// A sentence for the user that is no problem. gst-launch-1.0 shows the debug string of such a message alone.
    public func postInfo(_ text: String) {
        post(ElementProblem(.resourceSettings, text, debug: text), GST_MESSAGE_INFO)
    }

    /// Without the place in the sources that `gst_element_message_full` puts in front of the debug string: it says nothing
    /// to a user, and a message without details would have nothing else.
    private func post(_ problem: ElementProblem, _ type: GstMessageType) {
        let (domain, code) = problem.code.raw
        let make =
            switch type {
            case GST_MESSAGE_ERROR: gst_message_new_error_with_details
            case GST_MESSAGE_WARNING: gst_message_new_warning_with_details
            default: gst_message_new_info_with_details
            }
        guard let error = g_error_new_literal(domain, code, problem.text) else { return }
        defer { g_error_free(error) }
        let details = problem.details.map { gst_structure_copy($0.pointer) } ?? nil
        let debug = problem.debug.isEmpty ? nil : problem.debug
        // GStreamer copies the error and the debug string, and takes ownership of the details.
        if let message = make(gstObject, error, debug, details) { post(Message(taking: message)) }
    }
}
