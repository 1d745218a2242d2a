// GStreamerKit is the only importer of CGStreamer: everything above it speaks the Swift types of this target.
// It knows GObject, pads, caps, buffers, SDP; it must not know WebRTC, sessions or the service.
internal import CGStreamer

/// Initialises GStreamer once per process. Programs and tests call it; a plugin is loaded by a host that already did.
package enum GStreamerRuntime {
    private static let initialised: Bool = {
        gst_init(nil, nil)
        return true
    }()

    package static func initialise() { _ = initialised }

    /// Whether an element factory of this name is installed.
    package static func hasElement(_ factory: String) -> Bool {
        guard let found = gst_element_factory_find(factory) else { return false }
        gst_object_unref(UnsafeMutableRawPointer(found))
        return true
    }
}

/// A GStreamer call that was refused, with what was tried.
package struct GStreamerError: Error, CustomStringConvertible, Sendable {
    package enum Code: Sendable, Equatable { case missingElement(String), badDescription, linkFailed, badSDP, badCaps, stateChange }
    package let code: Code
    package let message: String
    package var description: String { message }

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
