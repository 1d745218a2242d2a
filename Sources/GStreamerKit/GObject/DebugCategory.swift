internal import CGStreamer
internal import Log

/// A GStreamer debug category. The plugin logs nowhere else.
// @unchecked: the category pointer is set once, and GStreamer synchronises access to the threshold.
public struct DebugCategory: @unchecked Sendable {
    private let category: UnsafeMutablePointer<GstDebugCategory>?
    /// The name for `GST_DEBUG`.
    public let name: String

    /// The raw values are those of GstDebugLevel.
    public enum Level: UInt32, Sendable {
        case error = 1
        case warning = 2
        case info = 4
        case debug, log, trace
        var raw: GstDebugLevel { GstDebugLevel(rawValue) }
    }

    /// Makes a category, or takes the one of this name.
    public init(_ name: String, _ description: String) {
        self.name = name
        category = _gst_debug_category_new(name, 0, description)
    }

    func isEnabled(_ level: Level) -> Bool {
        guard let category else { return false }
        return kit_debug_enabled(category, level.raw) != 0
    }

    /// Writes a message whose object is given by name.
    func write(_ entry: Logger.Entry, object: String) {
        guard let category else { return }
        gst_debug_log_id_literal(
            category, Level(entry.level).raw, entry.file.cString, entry.function.cString,
            Int32(clamping: entry.line), object, entry.text)
    }

    /// Messages of level `info` and above must not contain secrets, prompts or peer addresses.
    public func callAsFunction(
        _ level: Level, _ object: GObject? = nil, _ message: @autoclosure () -> String, file: StaticString = #fileID,
        function: StaticString = #function, line: UInt = #line
    ) {
        guard let category, isEnabled(level) else { return }
        gst_debug_log_literal(
            category, level.raw, file.cString, function.cString, Int32(clamping: line), object?.object, message())
    }
}

extension StaticString {
    /// The literals that the compiler passes for `#fileID` and `#function` end with a NUL.
    fileprivate var cString: UnsafePointer<CChar> {
        UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
