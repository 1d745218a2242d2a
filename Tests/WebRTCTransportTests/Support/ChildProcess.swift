import Glibc
import Synchronization
import TestSupport

/// A child process with its standard input and output on a socketpair; deinit kills it by its ID.
// @unchecked: the mutable state is guarded by the mutex; the rest is constant.
final class ChildProcess: @unchecked Sendable {
    struct CannotStart: Error { let status: Int32 }

    let process: pid_t
    private let descriptor: Int32
    private let ended = Mutex<Int32?>(nil)
    /// The child is a zombie until `end` collects it, so its process ID is not reused.
    private let hasExited = Watched(false)
    /// False while a thread reads lines: some may still come after the child has exited.
    private let hasReadAll = Watched(true)

    /// Adds `environment` to our own. Standard error is inherited unless `mergingErrors` is set.
    init(_ arguments: [String], environment: [String: String] = [:], mergingErrors: Bool = false) throws {
        // A socket instead of pipes: writing to a child that has exited must not raise SIGPIPE.
        var ends: [Int32] = [0, 0]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard let path = arguments.first, socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw CannotStart(status: errno)
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 0)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        if mergingErrors { posix_spawn_file_actions_adddup2(&actions, ends[1], 2) }
        var argv = arguments.map { strdup($0) } + [nil]
        var variables = Self.environment(adding: environment).map { strdup($0) } + [nil]
        var pid: pid_t = 0
        let status = posix_spawn(&pid, path, &actions, nil, &argv, &variables)
        posix_spawn_file_actions_destroy(&actions)
        for text in argv + variables { free(text) }
        close(ends[1])
        process = pid
        descriptor = ends[0]
        guard status == 0 else {
            close(ends[0])
            throw CannotStart(status: status)
        }
        detachThread { [hasExited, process] in
            var info = siginfo_t()
            while waitid(P_PID, id_t(process), &info, Int32(WEXITED | WNOWAIT)) != 0, errno == EINTR {}
            hasExited.change { $0 = true }
        }
    }

    deinit {
        _ = end(within: .zero)
        close(descriptor)
    }

    private static func environment(adding extra: [String: String]) -> [String] {
        var result: [String] = []
        var at = environ
        while let entry = at.pointee {
            let text = String(cString: entry)
            if !extra.keys.contains(where: { text.hasPrefix($0 + "=") }) { result.append(text) }
            at += 1
        }
        return result + extra.map { "\($0)=\($1)" }
    }

    func write(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    /// Calls `line` on a separate thread for every line of output until the child ends.
    func readLines(_ line: @escaping @Sendable ([UInt8]) -> Void) {
        let descriptor = dup(descriptor)
        hasReadAll.change { $0 = false }
        detachThread { [hasReadAll] in
            var rest: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else { break }
                rest += buffer[..<count]
                while let end = rest.firstIndex(of: 10) {
                    line(Array(rest[..<end]))
                    rest.removeSubrange(...end)
                }
            }
            if !rest.isEmpty { line(rest) }
            close(descriptor)
            hasReadAll.change { $0 = true }
        }
    }

    /// Returns the status in waitpid's format, after the last line. Kills a child that needs longer than `limit`.
    func end(within limit: Duration) -> Int32 {
        ended.withLock { ended in
            if let ended { return ended }
            shutdown(descriptor, Int32(SHUT_WR))
            if !hasExited.wait(limit, until: { $0 }) {
                kill(process, SIGKILL)
                _ = hasExited.wait(.seconds(5)) { $0 }
            }
            var status: Int32 = 0
            waitpid(process, &status, 0)
            // A process that the child has left behind may keep the output open.
            _ = hasReadAll.wait(.seconds(5)) { $0 }
            ended = status
            return status
        }
    }
}

/// Runs a test of this process in a child process, because other tests in this one start and end threads too.
/// - Returns: the status in waitpid's format, and the output.
func runInChild(
    _ filter: String, environment: [String: String], within limit: Duration
) throws -> (status: Int32, output: [String]) {
    let output = Watched<[String]>([])
    let worker = try ChildProcess(
        ["/proc/self/exe", "--filter", filter, "--testing-library", "swift-testing"],
        environment: environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { own, _ in own }, mergingErrors: true)
    worker.readLines { line in
        let text = String(decoding: line, as: UTF8.self)
        output.change { $0.append(text) }
    }
    let status = worker.end(within: limit)
    for line in output.value where line.hasPrefix("measured ") { print(line) }
    return (status, output.value)
}
