internal import CGStreamer

/// Holds one reference to a GObject, released with the Swift object.
// @unchecked: the reference count is atomic and GStreamer objects do their own locking.
public class GObject: @unchecked Sendable {
    /// The instance, for targets that call C on it themselves (the benchmark drives `webrtcbin`, which this target does
    /// not know).
    public let raw: UnsafeMutableRawPointer
    private let owns: Bool

    /// Takes over the caller's reference; sinks a floating one.
    init(taking raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = true
        if g_object_is_floating(raw) != 0 { g_object_ref_sink(raw) }
    }

    init(borrowing raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = true
        g_object_ref(raw)
    }

    /// Holds no reference, for an element's own implementation, which the element outlives.
    required init(unowned raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = false
    }

    deinit { if owns { g_object_unref(raw) } }

    /// The same object without a reference, for closures that it retains itself, such as probes, pad functions and signal
    /// handlers: a reference there would keep it alive for ever.
    public var unowned: Self { Self(unowned: raw) }

    var object: UnsafeMutablePointer<CGStreamer.GObject> { raw.assumingMemoryBound(to: CGStreamer.GObject.self) }
}

extension GObject {
    /// The objects of an iterator, which is freed.
    static func all<Object>(
        of iterator: UnsafeMutablePointer<GstIterator>?, _ make: (UnsafeMutableRawPointer) -> Object
    ) -> [Object] {
        guard let iterator else { return [] }
        defer { gst_iterator_free(iterator) }
        var found: [Object] = []
        var value = GValue()
        while true {
            switch gst_iterator_next(iterator, &value) {
            case GST_ITERATOR_OK:
                if let object = g_value_get_object(&value) { found.append(make(object)) }
                g_value_unset(&value)
            case GST_ITERATOR_RESYNC:
                found.removeAll()
                gst_iterator_resync(iterator)
            default: return found
            }
        }
    }
}

extension String {
    /// Takes over a string that GLib has allocated; NULL is empty.
    init(taking text: UnsafeMutablePointer<CChar>?) {
        defer { g_free(text) }
        self = text.map { String(cString: $0) } ?? ""
    }
}
