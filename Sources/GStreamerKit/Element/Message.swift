internal import CGStreamer

/// A message of an element on a bus, with one reference.
// @unchecked: messages are immutable once posted and reference counting is atomic.
public final class Message: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<GstMessage>

    init(taking pointer: UnsafeMutablePointer<GstMessage>) { self.pointer = pointer }
    deinit { kit_mini_object_unref(pointer) }

    func copyReference() -> UnsafeMutablePointer<GstMessage> {
        kit_mini_object_ref(pointer).assumingMemoryBound(to: GstMessage.self)
    }

    /// The kinds of messages; `other` for those that have no name here.
    public enum Kind: Sendable, Equatable {
        case error, warning, info, eos, element, progress, latency, qos, stateChanged, deviceAdded, deviceRemoved, other
    }

    /// The type of the message, with its content.
    public var kind: Kind {
        switch pointer.pointee.type {
        case GST_MESSAGE_ERROR: .error
        case GST_MESSAGE_WARNING: .warning
        case GST_MESSAGE_INFO: .info
        case GST_MESSAGE_EOS: .eos
        case GST_MESSAGE_ELEMENT: .element
        case GST_MESSAGE_PROGRESS: .progress
        case GST_MESSAGE_LATENCY: .latency
        case GST_MESSAGE_QOS: .qos
        case GST_MESSAGE_STATE_CHANGED: .stateChanged
        case GST_MESSAGE_DEVICE_ADDED: .deviceAdded
        case GST_MESSAGE_DEVICE_REMOVED: .deviceRemoved
        default: .other
        }
    }

    /// A copy of the fields; nil: it has none.
    public var structure: Structure? { gst_message_get_structure(pointer).map { Structure(copying: $0) } }
    /// The name of the object that posted it.
    public var sourceName: String { pointer.pointee.src.map { String(taking: gst_object_get_name($0)) } ?? "" }

    /// True if this object has posted it.
    public func isFrom(_ object: GObject) -> Bool { UnsafeMutableRawPointer(pointer.pointee.src) == object.raw }

    /// True if this element, or one inside it, has posted it.
    public func isFrom(within element: Element) -> Bool {
        guard let source = pointer.pointee.src else { return false }
        return UnsafeMutableRawPointer(source) == element.raw
            || gst_object_has_as_ancestor(source, element.gstObject) != 0
    }

    /// Domain, code, text, debug details and the details structure of an error or a warning.
    public var problem: (domain: String, code: Int, text: String, debug: String, details: Structure?)? {
        var error: UnsafeMutablePointer<GError>?
        var debug: UnsafeMutablePointer<CChar>?
        var details: UnsafePointer<GstStructure>?
        switch kind {
        case .error:
            gst_message_parse_error(pointer, &error, &debug)
            gst_message_parse_error_details(pointer, &details)
        case .warning:
            gst_message_parse_warning(pointer, &error, &debug)
            gst_message_parse_warning_details(pointer, &details)
        default: return nil
        }
        defer {
            if let error { g_error_free(error) }
            g_free(debug)
        }
        guard let error else { return nil }
        return (
            String(cString: g_quark_to_string(error.pointee.domain)), Int(error.pointee.code),
            error.pointee.message.map { String(cString: $0) } ?? "", debug.map { String(cString: $0) } ?? "",
            details.map { Structure(copying: $0) }
        )
    }

    /// The code of an error of a resource that an application can act on; nil: another error.
    package var resourceProblem: ElementProblem.Code? {
        guard let problem else { return nil }
        return [.resourceNotFound, .resourceNotAuthorized, .resourceOpenReadWrite].first {
            (code: ElementProblem.Code) in
            let raw = code.raw
            return Int(raw.code) == problem.code && String(cString: g_quark_to_string(raw.domain)) == problem.domain
        }
    }

    /// A message of the element's own, named by its structure, which is copied.
    public static func element(_ source: Element, _ structure: Structure) -> Message {
        Message(taking: gst_message_new_element(source.gstObject, gst_structure_copy(structure.pointer)))
    }
    /// Says that the element's latency has changed.
    public static func latency(_ source: Element) -> Message {
        Message(taking: gst_message_new_latency(source.gstObject))
    }

    /// The raw values are those of GstProgressType.
    public enum Progress: UInt32, Sendable { case start, update, complete, cancelled, failed }
    /// Says how an operation of some time goes on.
    public static func progress(_ source: Element, _ progress: Progress, code: String, text: String) -> Message {
        let kind = GstProgressType(progress.rawValue)
        return Message(taking: gst_message_new_progress(source.gstObject, kind, code, text))
    }

    /// Reports that a live source's buffer was dropped. Times are in ns, the statistics are counted in buffers.
    public static func qos(
        _ source: Element, runningTime: ClockTime?, timestamp: ClockTime?, duration: ClockTime?, processed: UInt64,
        dropped: UInt64
    ) -> Message {
        let none = GstClockTime(ClockTime.noneValue)
        let message = gst_message_new_qos(
            source.gstObject, 1, guint64(runningTime ?? .noneValue), guint64(none), guint64(timestamp ?? .noneValue),
            guint64(duration ?? .noneValue))
        gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, guint64(processed), guint64(dropped))
        return Message(taking: message!)
    }
}

/// Carries the messages of a pipeline to the application.
public final class Bus: GObject, @unchecked Sendable {
    private var bus: UnsafeMutablePointer<GstBus> { raw.assumingMemoryBound(to: GstBus.self) }

    /// Pops the next message; waits at most `timeout`.
    public func next(timeout: Duration) -> Message? {
        gst_bus_timed_pop(bus, GstClockTime(timeout.clockTime)).map { Message(taking: $0) }
    }
}

extension Message {
    /// The states of a STATE_CHANGED message.
    public var stateChange: (from: ElementState, to: ElementState)? {
        guard kind == .stateChanged else { return nil }
        var (old, new) = (GST_STATE_NULL, GST_STATE_NULL)
        gst_message_parse_state_changed(pointer, &old, &new, nil)
        return (ElementState(old), ElementState(new))
    }
}
