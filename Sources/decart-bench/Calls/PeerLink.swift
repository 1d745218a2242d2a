import Glibc
import Synchronization

/// A signalling message between the two peers of a call.
enum PeerMessage: Sendable {
    case offer(String)
    case answer(String)
    case candidate(String)
    case stop

    /// Encodes the message as one line: call number, word, and text with escaped line ends.
    func line(call: Int) -> String {
        let (word, text): (String, String) =
            switch self {
            case .offer(let text): ("offer", text)
            case .answer(let text): ("answer", text)
            case .candidate(let text): ("candidate", text)
            case .stop: ("stop", "")
            }
        var coded = ""
        for character in text.unicodeScalars {
            switch character {
            case "\r": break
            case "\n": coded.unicodeScalars.append("\u{1}")
            default: coded.unicodeScalars.append(character)
            }
        }
        return "\(call) \(word) \(coded)\n"
    }

    static func parse(_ line: Substring) -> (call: Int, message: PeerMessage)? {
        let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let call = Int(parts[0]) else { return nil }
        let text = parts[2].split(separator: "\u{1}", omittingEmptySubsequences: false).joined(separator: "\r\n")
        switch parts[1] {
        case "offer": return (call, .offer(text))
        case "answer": return (call, .answer(text))
        case "candidate": return (call, .candidate(text))
        case "stop": return (call, .stop)
        default: return nil
        }
    }
}

/// Reads lines from a file descriptor on the caller's thread until end of file.
func readLines(from descriptor: Int32, _ body: (Substring) -> Void) {
    guard let file = fdopen(descriptor, "r") else { return }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while true {
        let count = getline(&line, &capacity, file)
        guard count > 0, let line else { return }
        let bytes = UnsafeRawBufferPointer(start: line, count: count)
        let text = Substring(decoding: bytes, as: UTF8.self)
        body(text.last == "\n" ? text.dropLast() : text)
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

/// A child process connected by pipes. Closing its input makes it exit.
// @unchecked: descriptors and pid are constant; writing is locked.
final class Child: @unchecked Sendable {
    let pid: pid_t
    private let input: Int32
    let output: Int32
    private let writing = Mutex(true)

    init(_ arguments: [String], path: String = "/proc/self/exe", environment extra: [String] = []) throws {
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
        var names = Self.environment
        for entry in extra {
            let key = entry.prefix { $0 != "=" } + "="
            names.removeAll { $0.hasPrefix(key) }
            names.append(entry)
        }
        var variables: [UnsafeMutablePointer<CChar>?] = names.map { strdup($0) } + [nil]
        defer { for pointer in pointers + variables { free(pointer) } }
        var pid: pid_t = 0
        let result = posix_spawn(&pid, path, &actions, nil, &pointers, &variables)
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

    private static var environment: [String] {
        ProcessFigures.entriesOfEnvironment
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
    /// - Returns: The exit status.
    @discardableResult
    func wait() -> Int32 {
        closeInput()
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        return status
    }
}

/// The process of the remote peers, and the calls of this process with them.
final class FarSide: Sendable {
    private let child: Child
    private let calls = Mutex<[Int: @Sendable (PeerMessage) -> Void]>([:])
    private let counter = Atomic(0)

    init(_ implementation: Implementation) throws {
        child = try Child(["peer", "--far", implementation.rawValue])
        let thread = ReaderThread { [weak self, descriptor = child.output] in
            readLines(from: descriptor) { line in
                guard let (call, message) = PeerMessage.parse(line) else { return }
                self?.deliver(message, to: call)
            }
        }
        thread.start()
    }

    private func deliver(_ message: PeerMessage, to call: Int) { calls.withLock { $0[call] }?(message) }

    /// Returns a new call's number, and a function that sends messages to its remote peer.
    func newCall() -> (number: Int, send: @Sendable (PeerMessage) -> Void) {
        let number = counter.wrappingAdd(1, ordering: .relaxed).newValue
        return (number, { [child] message in child.write(message.line(call: number)) })
    }

    func listen(to call: Int, _ handler: (@Sendable (PeerMessage) -> Void)?) { calls.withLock { $0[call] = handler } }

    /// Kills a process that does not end: webrtcbin can block for good while it stops.
    func end() {
        child.closeInput()
        let begun = ContinuousClock.now
        while !child.hasEnded {
            guard .now - begun < .seconds(10) else {
                kill(child.pid, SIGKILL)
                break
            }
            pause(.milliseconds(20))
        }
        child.wait()
    }
}

/// A detached thread that runs one closure.
struct ReaderThread {
    private final class Work {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    func start() {
        var thread = pthread_t()
        let work = Unmanaged.passRetained(Work(body)).toOpaque()
        pthread_create(
            &thread, nil,
            { data in
                if let data { Unmanaged<Work>.fromOpaque(data).takeRetainedValue().body() }
                return nil
            }, work)
        pthread_detach(thread)
    }
}
