import Dispatch
import Glibc
package import ICE
import Synchronization

/// coturn on loopback, with its own ports and files; deinit ends it.
package final class TurnServer: @unchecked Sendable {
    // @unchecked: `init` alone writes the properties.
    private let process: pid_t
    private let directory: String
    package let port: UInt16
    /// Port for TLS; 0 without a certificate.
    package let tlsPort: UInt16
    /// PEM file of the certificate's issuer: the self-signed certificate itself.
    package var authority: String { "\(directory)/cert.pem" }

    private static let path = "/usr/bin/turnserver"
    package static var isInstalled: Bool { access(path, X_OK) == 0 }

    package struct CannotStart: Error {
        let reason: String
    }

    private let username: String
    private let credential: String

    /// - Parameters:
    ///   - name: enables TLS with a certificate for this subject, "DNS:…" or "IP:…".
    ///   - temporaryUser: selects temporary credentials, as services issue them: expiry time and name, and an HMAC.
    package init(tls name: String? = nil, temporaryUser: String? = nil) throws {
        var template = Array("/tmp/decart-turn-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw CannotStart(reason: "no temporary folder") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        port = try LoopbackSocket.freePort()
        tlsPort = name == nil ? 0 : try LoopbackSocket.freePort()
        if let name {
            let status = system(
                "cd '\(directory)' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem "
                    + "-out cert.pem -days 3 -subj /CN=turn -addext subjectAltName=\(name) >/dev/null 2>&1")
            guard status == 0 else { throw CannotStart(reason: "no certificate") }
        }
        let users: [String]
        if let temporaryUser {
            username = "\(time(nil) + 3600):\(temporaryUser)"
            credential = try Self.output(
                of: "printf %s '\(username)' | openssl dgst -sha1 -hmac '\(directory)' -binary | openssl base64")
            users = ["--use-auth-secret", "--static-auth-secret", directory]
        } else {
            (username, credential) = ("test", "pass")
            users = ["-a", "-u", "test:pass"]
        }
        let first = Int.random(in: 40_000...59_000)
        let tls =
            name == nil
            ? ["--no-tls"]
            : [
                "--tls-listening-port", "\(tlsPort)", "--cert", "\(directory)/cert.pem", "--pkey",
                "\(directory)/key.pem",
            ]
        let arguments = [
            Self.path, "-v", "-n", "-L", "127.0.0.1", "-E", "127.0.0.1", "-p", "\(port)",
            "--min-port", "\(first)", "--max-port", "\(first + 200)", "--relay-threads", "1",
            "-r", "example.org", "--allow-loopback-peers", "--no-cli", "--no-dtls",
            "--no-rfc5780", "-l", "stdout", "--pidfile", "\(directory)/pid", "-b", "\(directory)/db",
        ]
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw CannotStart(reason: "no pipe") }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2)
        posix_spawn_file_actions_addclose(&actions, ends[0])
        var argv = (arguments + users + tls).map { strdup($0) }
        argv.append(nil)
        var pid: pid_t = 0
        let status = posix_spawn(&pid, Self.path, &actions, nil, argv, environ)
        posix_spawn_file_actions_destroy(&actions)
        for argument in argv { free(argument) }
        close(ends[1])
        let log = ServerLog(ends[0])
        process = pid
        guard status == 0 else { throw CannotStart(reason: "\(Self.path): \(status)") }
        // Threads of coturn open the listeners and the database, in any order.
        let listeners = ["UDP", "TCP"].map { ($0, port) } + (tlsPort == 0 ? [] : [("TCP", tlsPort)])
        let lines = listeners.map { "\($0) listener opened on: 127.0.0.1:\($1)\n" } + ["DB connection success"]
        guard log.wait(for: lines) else { throw CannotStart(reason: "coturn did not report \(lines): \(log.text)") }
    }

    deinit {
        kill(process, SIGKILL)
        var status: Int32 = 0
        waitpid(process, &status, 0)
        for name in ["pid", "db", "db-shm", "db-wal", "cert.pem", "key.pem"] { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }

    /// Suspends the server: it stops answering while its sockets stay open.
    package func freeze() {
        kill(process, SIGSTOP)
        // Until then its threads may still answer: on a busy machine 63 of 300 requests.
        var status: Int32 = 0
        waitpid(process, &status, WUNTRACED)
    }

    package func server(_ transport: String) throws -> ICEServer {
        try ICEServer(url: "turn:127.0.0.1:\(port)?transport=\(transport)", username: username, credential: credential)
    }

    package func tlsServer(host: String, credential: String? = nil) throws -> ICEServer {
        try ICEServer(
            url: "turns:\(host):\(tlsPort)?transport=tcp", username: username, credential: credential ?? self.credential
        )
    }

    private static func output(of command: String) throws -> String {
        guard let stream = popen(command, "r") else { throw CannotStart(reason: command) }
        var line = [CChar](repeating: 0, count: 256)
        let isRead = fgets(&line, Int32(line.count), stream) != nil
        guard pclose(stream) == 0, isRead else { throw CannotStart(reason: command) }
        return String(
            decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }.filter { $0 > 0x20 }, as: UTF8.self)
    }
}

/// Reads coturn's log to its end, because coturn blocks once the pipe is full.
private final class ServerLog: Sendable {
    private let start = Mutex("")
    private let hasMore = DispatchSemaphore(value: 0)

    /// - Parameter pipe: closed at the end of the log.
    init(_ pipe: Int32) {
        DispatchQueue(label: "coturn log").async { [self] in
            var buffer = [UInt8](repeating: 0, count: 4_096)
            while case let count = read(pipe, &buffer, buffer.count), count > 0 {
                // Spaces do not count, because coturn varies them.
                let text = String(decoding: buffer.prefix(count).filter { $0 != 0x20 }, as: UTF8.self)
                start.withLock { if $0.utf8.count < 100_000 { $0 += text } }
                hasMore.signal()
            }
            close(pipe)
        }
    }

    var text: String { start.withLock { $0 } }

    /// Waits until the log has all of the texts.
    func wait(for texts: [String]) -> Bool {
        let texts = texts.map { $0.filter { $0 != " " } }
        let deadline = DispatchTime.now() + .seconds(60)
        while !texts.allSatisfy(text.contains) {
            guard hasMore.wait(timeout: deadline) == .success else { return false }
        }
        return true
    }
}
