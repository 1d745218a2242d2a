internal import CGStreamer

/// Holds one reference to a GObject, released with the Swift object.
// @unchecked: the reference count is atomic and GStreamer objects do their own locking.
package class GObject: @unchecked Sendable {
    /// The instance, for targets that call C on it themselves (the benchmark drives `webrtcbin`, which this target does
    /// not know).
    package let raw: UnsafeMutableRawPointer
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
    init(unowned raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = false
    }

    deinit { if owns { g_object_unref(raw) } }

    var object: UnsafeMutablePointer<CGStreamer.GObject> { raw.assumingMemoryBound(to: CGStreamer.GObject.self) }
}
