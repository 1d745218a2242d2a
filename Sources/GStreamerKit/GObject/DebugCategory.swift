internal import CGStreamer

/// A GStreamer debug category. The plugin logs nowhere else.
// @unchecked: the category pointer is set once, and GStreamer synchronises access to the threshold.
package struct DebugCategory: @unchecked Sendable {
    private let category: UnsafeMutablePointer<GstDebugCategory>?
    package let name: String

    /// The raw values are those of GstDebugLevel.
    package enum Level: UInt32, Sendable {
        case error = 1
        case warning = 2
        case info = 4
        case debug, log, trace
        var raw: GstDebugLevel { GstDebugLevel(rawValue) }
    }

    package init(_ name: String, _ description: String) {
        self.name = name
        category = _gst_debug_category_new(name, 0, description)
    }

    func isEnabled(_ level: Level) -> Bool {
        guard let category else { return false }
        return decart_debug_enabled(category, level.raw) != 0
    }

    /// Writes a message whose object is given by name.
    func write(
        _ level: Level, object: String, _ message: String, file: String, function: String, line: UInt
    ) {
        guard let category else { return }
        gst_debug_log_id_literal(category, level.raw, file, function, Int32(clamping: line), object, message)
    }

    /// Messages of level `info` and above must not contain secrets, prompts or peer addresses.
    package func callAsFunction(
        _ level: Level, _ object: GObject? = nil, _ message: @autoclosure () -> String, file: StaticString = #fileID,
        function: StaticString = #function, line: UInt = #line
    ) {
        guard let category, isEnabled(level) else { return }
        // The literals that the compiler passes end with a NUL.
        let (file, function) = (UnsafeRawPointer(file.utf8Start), UnsafeRawPointer(function.utf8Start))
        gst_debug_log_literal(
            category, level.raw, file.assumingMemoryBound(to: CChar.self),
            function.assumingMemoryBound(to: CChar.self), Int32(clamping: line), object?.object, message())
    }
}
