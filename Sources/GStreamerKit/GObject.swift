internal import CGStreamer

/// One reference on a GObject, released with the Swift value.
// @unchecked: GObject's reference count is atomic and GStreamer objects lock themselves.
package class GObject: @unchecked Sendable {
    /// The instance itself, for a target that calls C on it (the benchmark drives `webrtcbin`, which the kit does not know).
    package let raw: UnsafeMutableRawPointer
    private let owns: Bool

    /// Takes over a reference that the caller owned (floating references are sunk).
    init(taking raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = true
        if g_object_is_floating(raw) != 0 { g_object_ref_sink(raw) }
    }

    /// Adds a reference of its own.
    init(borrowing raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = true
        g_object_ref(raw)
    }

    /// No reference at all: for an implementation's own element, which outlives it.
    init(unowned raw: UnsafeMutableRawPointer) {
        self.raw = raw
        owns = false
    }

    deinit { if owns { g_object_unref(raw) } }

    var object: UnsafeMutablePointer<CGStreamer.GObject> { raw.assumingMemoryBound(to: CGStreamer.GObject.self) }
}
