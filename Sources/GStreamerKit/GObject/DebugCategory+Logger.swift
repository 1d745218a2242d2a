// Connects `Logger`, which targets without GStreamer use too, with GStreamer's debug log.
package import Log

extension DebugCategory {
    /// Makes a logger whose messages go to this category, in the place of an object's messages.
    /// - Parameter object: the name that the log shows as the object, for example that of the element.
    package func logger(for object: String) -> Logger {
        Logger(isEnabled: { isEnabled(Level($0)) }, write: { write($0, object: object) })
    }
}

extension DebugCategory.Level {
    init(_ level: Logger.Level) {
        self =
            switch level {
            case .warning: .warning
            case .info: .info
            case .debug: .debug
            case .log: .log
            }
    }
}
