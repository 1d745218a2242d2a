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

    @Test func textsAreChanged() {
        let record = Record()
        let logger = logger(record, upTo: .log).naming("a").mapping { $0.uppercased() }
        logger.warning("b")
        logger.debug("c")
        logger.log("of a packet")
        #expect(record.all == ["warning A: B", "debug A: C", "log a: of a packet"])
    }

    /// A peer may cause warnings as fast as it likes, and hides nothing else with them.
    @Test func linesAreLimited() {
        let record = Record()
        let logger = logger(record, upTo: .debug).limited()
        for _ in 0..<10_000 { logger.naming("a").warning("b") }
        let count = record.all.count
        #expect((LinePace.burst..<10_000).contains(count))
        for _ in 0..<1000 { logger.debug("c") }
        logger.info("d")
        #expect(record.all.count == count + 1001 && record.all.last == "info d")
    }

    @Test func whatWasLeftOutIsCounted() {
        var pace = LinePace()
        let burst = (0..<150).map { _ in pace.admit(now: .seconds(5)) }
        #expect(burst == Array(repeating: 0, count: LinePace.burst) + Array(repeating: nil, count: 50))
        let later = [1, 2].map { pace.admit(now: .seconds(5) + LinePace.interval * $0) }
        #expect(later == [50, 0])
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
