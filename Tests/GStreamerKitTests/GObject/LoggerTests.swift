import CGStreamer
import GStreamerKit
import Log
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1)))
struct LoggerTests {
    private final class Record: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        func append(_ line: String) { lines.withLock { $0.append(line) } }
    }

    private func logger(_ record: Record, upTo threshold: Logger.Level) -> Logger {
        Logger(isEnabled: { $0 <= threshold }, write: { record.append("\($0.level) \($0.text)") })
    }

    @Test func levelsUpToTheThresholdPass() {
        let levels: [Logger.Level] = [.warning, .info, .debug, .log]
        for (number, threshold) in levels.enumerated() {
            let record = Record()
            let logger = logger(record, upTo: threshold)
            logger.log("d")
            logger.debug("c")
            logger.info("b")
            logger.warning("a")
            #expect(record.all == Array(["log d", "debug c", "info b", "warning a"].suffix(number + 1)))
            #expect(levels.filter(logger.isEnabled) == Array(levels.prefix(number + 1)))
        }
    }

    @Test func disabledMessageIsNotFormatted() {
        let record = Record()
        func formatted(_ level: String) -> String {
            record.append("formats \(level)")
            return level
        }
        logger(record, upTo: .info).debug(formatted("debug"))
        Logger.none.warning(formatted("warning"))
        #expect(record.all.isEmpty && !Logger.none.isEnabled(.warning))
        logger(record, upTo: .info).info(formatted("info"))
        #expect(record.all == ["formats info", "info info"])
    }

    @Test func nameComesFirst() {
        let record = Record()
        let logger = logger(record, upTo: .info)
        logger.naming("publisher").info("connected")
        logger.info("connected")
        #expect(record.all == ["info publisher: connected", "info connected"])
    }

    /// All that a line of GST_DEBUG has: level, category, object, message and the place in the source.
    @Test func messagesReachGStreamersLog() throws {
        GStreamerRuntime.initialise()
        let record = Record()
        let pointer = Unmanaged.passUnretained(record).toOpaque()
        gst_debug_add_log_function(
            { category, level, file, function, line, _, message, data in
                guard let category, let file, let function, let message, let data,
                    String(cString: gst_debug_category_get_name(category)) == "decart-logger-test"
                else { return }
                Unmanaged<Record>.fromOpaque(data).takeUnretainedValue().append(
                    """
                    \(level.rawValue) \(String(cString: file)) \
                    \(String(cString: function)) \(String(cString: gst_debug_message_get_id(message))) \
                    \(String(cString: gst_debug_message_get(message))) \(line > 0)
                    """)
            }, pointer, nil)
        defer { gst_debug_remove_log_function_by_data(pointer) }
        let logger = DebugCategory("decart-logger-test", "A test").logger(for: "element0")
        gst_debug_set_threshold_for_name("decart-logger-test", GST_LEVEL_NONE)
        #expect(!logger.isEnabled(.warning))
        logger.warning("is not shown")
        gst_debug_set_threshold_for_name("decart-logger-test", GST_LEVEL_INFO)
        #expect(logger.isEnabled(.info) && !logger.isEnabled(.debug))
        logger.debug("is not shown")
        logger.info("100 % is no format: %s")
        gst_debug_set_threshold_for_name("decart-logger-test", GST_LEVEL_LOG)
        logger.warning("a")
        logger.naming("camera").debug("b")
        logger.log("c")
        let place = "GStreamerKitTests/LoggerTests.swift messagesReachGStreamersLog() element0"
        #expect(
            record.all == [
                "\(GST_LEVEL_INFO.rawValue) \(place) 100 % is no format: %s true",
                "\(GST_LEVEL_WARNING.rawValue) \(place) a true",
                "\(GST_LEVEL_DEBUG.rawValue) \(place) camera: b true",
                "\(GST_LEVEL_LOG.rawValue) \(place) c true",
            ])
    }
}
