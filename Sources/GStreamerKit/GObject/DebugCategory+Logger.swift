// Connects swift-log's `Logger`, which targets without GStreamer use too, with GStreamer's debug log.
internal import CGStreamer
package import Logging

extension DebugCategory {
    /// Makes a logger whose messages go to this category, in the place of an object's messages.
    ///
    /// The levels map to GStreamer's of the same name; `notice` is INFO, `critical` is ERROR and `trace` is LOG, the
    /// level of single packets and frames. Metadata precedes the message.
    /// - Parameter object: the name that the log shows as the object, for example that of the element.
    package func logger(for object: String) -> Logger {
        Logger(label: name) { _ in DebugLogHandler(category: self, object: object) }
    }
}

private struct DebugLogHandler: LogHandler {
    let category: DebugCategory
    let object: String
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// The threshold that GST_DEBUG or the application has set for the category, which may change at any time.
    var logLevel: Logger.Level {
        get { category.threshold }
        set {}
    }

    func log(event: LogEvent) {
        let level = DebugCategory.Level(event.level)
        guard category.isEnabled(level) else { return }
        let prefix = metadata.isEmpty ? "" : metadata.values.map { "\($0)" }.sorted().joined(separator: " ") + ": "
        category.write(
            level, object: object, "\(prefix)\(event.message)", file: event.file, function: event.function,
            line: event.line)
    }
}

extension DebugCategory {
    fileprivate var threshold: Logger.Level {
        for level in [Logger.Level.trace, .debug, .info, .warning] where isEnabled(Level(level)) { return level }
        return .error
    }
}

extension DebugCategory.Level {
    fileprivate init(_ level: Logger.Level) {
        self =
            switch level {
            case .trace: .log
            case .debug: .debug
            case .info, .notice: .info
            case .warning: .warning
            case .error, .critical: .error
            }
    }
}
