import Glibc
import Synchronization

/// SIGPIPE, which the kernel delivers to a thread that writes to a closed socket or pipe. GLib makes a process ignore it, and
/// the plugin restores the host's disposition: whatever else writes in such a process must block the signal in the writing
/// thread or send with MSG_NOSIGNAL.
package enum BrokenPipe {
    private static let handled = Atomic<Int>(0)

    /// Runs `body` on this thread, which takes the signal meanwhile.
    /// - Returns: how often SIGPIPE was handled, by any thread.
    package static func signals(during body: () throws -> Void) rethrows -> Int {
        var pipe = sigset_t()
        sigemptyset(&pipe)
        sigaddset(&pipe, SIGPIPE)
        var former = sigset_t()
        // Also initialises the counter, which a signal handler must not do.
        let before = handled.load(ordering: .relaxed)
        let disposition = signal(SIGPIPE) { _ in BrokenPipe.handled.add(1, ordering: .relaxed) }
        pthread_sigmask(SIG_UNBLOCK, &pipe, &former)
        defer {
            pthread_sigmask(SIG_SETMASK, &former, nil)
            signal(SIGPIPE, disposition)
        }
        try body()
        return handled.load(ordering: .relaxed) - before
    }

    /// Writes to a socket whose peer is closed, without MSG_NOSIGNAL.
    /// - Returns: errno.
    package static func write() -> CInt {
        var pair: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else {
            return errno
        }
        defer { close(pair[0]) }
        close(pair[1])
        return Glibc.write(pair[0], "x", 1) < 0 ? errno : 0
    }

    /// The threads of the plugin and the stand-in in this process, by whether they block SIGPIPE.
    package static func eventLoopThreads() -> (blocking: [String], others: [String]) {
        var threads: (blocking: [String], others: [String]) = ([], [])
        guard let directory = opendir("/proc/self/task") else { return threads }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let id = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            let fields = status(ofThread: id)
            guard let name = fields["Name"], name.hasPrefix("decart"),
                let mask = fields["SigBlk"].flatMap({ UInt64($0, radix: 16) })
            else { continue }
            if mask & 1 << UInt64(SIGPIPE - 1) != 0 {
                threads.blocking.append(name)
            } else {
                threads.others.append(name)
            }
        }
        return threads
    }

    /// Empty if the thread has ended meanwhile.
    private static func status(ofThread id: String) -> [String: String] {
        let descriptor = open("/proc/self/task/\(id)/status", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [:] }
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 8_192)
        let count = read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return [:] }
        var fields: [String: String] = [:]
        for line in String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { fields[String(parts[0])] = String(parts[1].drop { $0 == "\t" || $0 == " " }) }
        }
        return fields
    }
}
