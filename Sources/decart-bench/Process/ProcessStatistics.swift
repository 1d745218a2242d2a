import Dispatch
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
            descriptors: entries(of: "/proc/self/fd"))
    }

    /// User and system time of all threads.
    static var cpuTime: Duration {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    static func lines(of path: String) -> [Substring] {
        String(decoding: contents(of: path), as: UTF8.self).split(separator: "\n")
    }

    /// All environment variables as "NAME=value".
    static var environment: [String] {
        contents(of: "/proc/self/environ").split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func contents(of path: String) -> [UInt8] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = fread(&buffer, 1, buffer.count, file)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
    }

    private static func value(_ key: String, in lines: [Substring]) -> Int {
        for line in lines where line.hasPrefix(key) {
            return line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return 0
    }

    private static func entries(of folder: String) -> Int {
        guard let directory = opendir(folder) else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while let entry = readdir(directory) {
            if entry.pointee.d_name.0 != CChar(bitPattern: UInt8(ascii: ".")) { count += 1 }
        }
        // Subtract the descriptor that reads the folder.
        return count - 1
    }
}

/// The machine's description for the report.
enum Machine {
    static var description: String {
        let processor = ProcessStatistics.lines(of: "/proc/cpuinfo").first { $0.hasPrefix("model name") }
        let model = processor?.split(separator: ":").last.map { String($0).trimmed } ?? "unknown processor"
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

extension String {
    var trimmed: String {
        var slice = self[...]
        while slice.first?.isWhitespace == true { slice.removeFirst() }
        while slice.last?.isWhitespace == true { slice.removeLast() }
        return String(slice)
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
