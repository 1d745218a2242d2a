import Dispatch
import FoundationEssentials
import Glibc

/// The kernel's statistics of this process.
struct ProcessStatistics: Sendable {
    var cpu: Duration
    var wall: ContinuousClock.Instant
    var residentKilobytes: Int
    var threads: Int
    var descriptors: Int

    static func now() -> ProcessStatistics {
        let status = lines(of: "/proc/self/status")
        return ProcessStatistics(
            cpu: cpuTime, wall: .now, residentKilobytes: value("VmRSS:", in: status),
            threads: value("Threads:", in: status),
            // Without the descriptor that reads the folder.
            descriptors: ((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 1) - 1)
    }

    /// User and system time of all threads.
    static var cpuTime: Duration {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    static func lines(of path: String) -> [Substring] {
        String(decoding: (try? Data(contentsOf: URL(filePath: path))) ?? Data(), as: UTF8.self).split(separator: "\n")
    }

    private static func value(_ key: String, in lines: [Substring]) -> Int {
        for line in lines where line.hasPrefix(key) {
            return line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return 0
    }
}

/// The machine's description for the report.
enum Machine {
    static var description: String {
        let processor = ProcessStatistics.lines(of: "/proc/cpuinfo").first { $0.hasPrefix("model name") }
        let model =
            processor?.split(separator: ":").last.map { String($0.drop(while: \.isWhitespace)) } ?? "unknown processor"
        let release = ProcessStatistics.lines(of: "/etc/os-release").first { $0.hasPrefix("PRETTY_NAME=") }
        let system = release?.split(separator: "=").last.map { $0.filter { $0 != "\"" } } ?? "Linux"
        return "\(model), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) cores, \(system)"
    }

    static var load: String {
        ProcessStatistics.lines(of: "/proc/loadavg").first.map {
            $0.split(separator: " ").prefix(3).joined(separator: " ")
        } ?? "?"
    }
}

extension Duration {
    var milliseconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) * 1000 + Double(attoseconds) / 1e15
    }
    var inSeconds: Double { milliseconds / 1000 }
}

/// Sleeps; a benchmark has no other event to wait for.
func pause(_ duration: Duration) {
    _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .milliseconds(Int(duration.milliseconds)))
}
