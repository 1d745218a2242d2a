/// Passes messages to a log that the caller does not know: for the elements GStreamer's debug log
/// (`DebugCategory.logger`), whose levels it has.
package struct Logger: Sendable {
    /// The more important comes first. `log` is for single packets and frames.
    package enum Level: Comparable, Sendable { case warning, info, debug, log }

    package struct Entry: Sendable {
        package let level: Level
        package let text: String
        package let file, function: StaticString
        package let line: UInt
    }

    /// The log's threshold may change at any time.
    package let isEnabled: @Sendable (Level) -> Bool
    private let sink: @Sendable (Entry) -> Void
    private var prefix = ""

    /// - Parameter write: receives the messages of levels that are enabled, on any thread.
    package init(isEnabled: @escaping @Sendable (Level) -> Bool, write: @escaping @Sendable (Entry) -> Void) {
        (self.isEnabled, sink) = (isEnabled, write)
    }

    /// Discards everything.
    package static let none = Logger(isEnabled: { _ in false }, write: { _ in })

    /// Returns a logger whose messages begin with a name.
    package func naming(_ name: String) -> Logger {
        var named = self
        named.prefix = "\(name): "
        return named
    }

    package func warning(
        _ text: @autoclosure () -> String, file: StaticString = #fileID, function: StaticString = #function,
        line: UInt = #line
    ) { write(.warning, text, file, function, line) }

    package func info(
        _ text: @autoclosure () -> String, file: StaticString = #fileID, function: StaticString = #function,
        line: UInt = #line
    ) { write(.info, text, file, function, line) }

    package func debug(
        _ text: @autoclosure () -> String, file: StaticString = #fileID, function: StaticString = #function,
        line: UInt = #line
    ) { write(.debug, text, file, function, line) }

    package func log(
        _ text: @autoclosure () -> String, file: StaticString = #fileID, function: StaticString = #function,
        line: UInt = #line
    ) { write(.log, text, file, function, line) }

    /// A message of a disabled level is not even formatted.
    private func write(
        _ level: Level, _ text: () -> String, _ file: StaticString, _ function: StaticString, _ line: UInt
    ) {
        guard isEnabled(level) else { return }
        sink(Entry(level: level, text: prefix + text(), file: file, function: function, line: line))
    }
}
