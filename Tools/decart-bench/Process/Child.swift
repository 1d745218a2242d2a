import Glibc
import Synchronization

/// A child process connected by pipes. Closing its input makes it exit.
// @unchecked: descriptors and pid are constant; writing is locked.
final class Child: @unchecked Sendable {
    let pid: pid_t
    private let input: Int32
    let output: Int32
    private let writing = Mutex(true)

    init(_ arguments: [String], path: String = "/proc/self/exe") throws {
        var down: [Int32] = [0, 0]
        var up: [Int32] = [0, 0]
        // Close-on-exec: another child must not keep this one's pipes open.
        guard pipe(&down) == 0, pipe(&up) == 0 else { throw BenchError("no pipe") }
        for descriptor in down + up { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, down[0], 0)
        posix_spawn_file_actions_adddup2(&actions, up[1], 1)
        var pointers: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var pid: pid_t = 0
        let result = posix_spawn(&pid, path, &actions, nil, &pointers, environ)
        close(down[0])
        close(up[1])
        guard result == 0 else {
            close(down[1])
            close(up[0])
            throw BenchError("cannot start \(path): \(String(cString: strerror(result)))")
        }
        self.pid = pid
        input = down[1]
        output = up[0]
    }

    /// Runs this program with other arguments, passes the lines of its output to `body`, and returns its status.
    static func run(_ arguments: [String], _ body: (Substring) -> Void) throws -> Int32 {
        let child = try Child(arguments)
        child.closeInput()
        readLines(from: child.output, body)
        return child.wait()
    }

    func write(_ text: String) { writing.withLock { if $0 { writeAll(text, to: input) } } }

    func closeInput() {
        writing.withLock { isOpen in
            if isOpen { close(input) }
            isOpen = false
        }
    }

    /// True once `wait` returns at once.
    var hasEnded: Bool {
        var information = siginfo_t()
        return waitid(P_PID, id_t(pid), &information, WEXITED | WNOHANG | WNOWAIT) != 0 || information.si_signo != 0
    }

    /// Waits until the process ends.
    @discardableResult
    func wait() -> Int32 {
        closeInput()
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        return status
    }
}

func writeAll(_ text: String, to descriptor: Int32) {
    let bytes = Array(text.utf8)
    var offset = 0
    while offset < bytes.count {
        let count = bytes.withUnsafeBytes {
            write(descriptor, $0.baseAddress.map { $0 + offset }, bytes.count - offset)
        }
        guard count > 0 else { return }
        offset += count
    }
}

struct BenchError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
