import CGStreamer
import Synchronization

/// Collects GLib's critical messages between `start` and `stop`: a call on a finalised object logs one.
enum Criticals {
    private static let received = Mutex<[String]>([])

    static func start() {
        received.withLock { $0 = [] }
        g_log_set_default_handler(
            { domain, level, text, _ in
                guard level.rawValue & G_LOG_LEVEL_CRITICAL.rawValue != 0 else {
                    return g_log_default_handler(domain, level, text, nil)
                }
                let line = text.map { String(cString: $0) } ?? ""
                Criticals.received.withLock { $0.append(line) }
            }, nil)
    }

    static func stop() -> [String] {
        g_log_set_default_handler(g_log_default_handler, nil)
        return received.withLock { $0 }
    }
}
