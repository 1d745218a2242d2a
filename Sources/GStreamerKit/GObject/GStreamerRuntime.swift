// GStreamerKit is the only target that imports CGStreamer; all targets above it use its Swift types. It knows GObject,
// pads, caps, buffers and SDP; it must not know WebRTC, sessions or the service.
internal import CGStreamer
internal import Synchronization

/// Initialises GStreamer once per process, for programs and tests. The plugin does not need it: its host has already
/// initialised GStreamer.
public enum GStreamerRuntime {
    private static let initialised: Bool = {
        gst_init(nil, nil)
        return true
    }()

    /// Initialises GStreamer, once. Call it before anything else of GStreamer.
    public static func initialise() { _ = initialised }

    /// GLib has an implementation of TLS, which elements of protocols need.
    package static var supportsTLS: Bool { g_tls_backend_supports_tls(g_tls_backend_get_default()) != 0 }
}

/// A failed GStreamer call, with what was attempted.
public struct GStreamerError: Error, CustomStringConvertible, Sendable {
    /// What failed.
    public enum Code: Sendable, Equatable {
        case missingElement(String)
        case badDescription, linkFailed, badSDP, badCaps, stateChange, badOption
    }
    /// The kind of failure, by which a program decides.
    public let code: Code
    /// What failed, as a part of a sentence.
    public let message: String
    /// The message.
    public var description: String { message }

    /// An error of one's own.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension GStreamerError {
    /// The error of an element that is not installed.
    public static func missing(_ factory: String) -> GStreamerError {
        GStreamerError(
            .missingElement(factory), "the GStreamer element \(MissingElement.name(factory)) is not installed")
    }
}

/// How errors name an element that is not installed.
public enum MissingElement {
    // A closure stored directly in a `Mutex` gains a thunk at each access.
    private struct Names { var of: @Sendable (String) -> String = { $0 } }
    private static let names = Mutex(Names())

    /// Errors name an element from now on as `names` does its factory, for example with the package of the distribution.
    /// Any thread may call it.
    public static func setNames(_ names: @escaping @Sendable (String) -> String) {
        self.names.withLock { $0.of = names }
    }

    static func name(_ factory: String) -> String { names.withLock(\.of)(factory) }
}
