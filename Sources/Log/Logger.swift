import Synchronization

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
    private var change: (@Sendable (String) -> String)?
    private var limit: Limit?

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

    /// Returns a logger that changes the texts of its messages, except those of single packets and frames, which have no
    /// text of a peer.
    package func mapping(_ change: @escaping @Sendable (String) -> String) -> Logger {
        var mapped = self
        mapped.change = change
        return mapped
    }

    /// Returns a logger for what a peer may cause at any rate: further lines of WARNING and INFO are counted and left out.
    package func limited() -> Logger {
        var limited = self
        limited.limit = Limit()
        return limited
    }

    private final class Limit: Sendable {
        private let began = ContinuousClock.now
        private let paces = Mutex<[Level: LinePace]>([:])

        func admit(_ level: Level) -> Int? {
            guard level <= .info else { return 0 }
            let now = ContinuousClock.now - began
            return paces.withLock { $0[level, default: LinePace()].admit(now: now) }
        }
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
        guard isEnabled(level), let leftOut = limit.map({ $0.admit(level) }) ?? 0 else { return }
        var text = prefix + text()
        if level < .log, let change { text = change(text) }
        if leftOut > 0 { text += " (\(leftOut) lines before it were left out)" }
        sink(Entry(level: level, text: text, file: file, function: function, line: line))
    }
}
