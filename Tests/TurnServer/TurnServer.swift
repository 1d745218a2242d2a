import Glibc
import ICE

/// coturn on loopback, with its own ports and files; ends with the object.
final class TurnServer: @unchecked Sendable {
    // Written in init, read afterwards.
    private let process: pid_t
    private let output: Int32
    private let directory: String
    let port: UInt16
    /// TLS, where a certificate was asked for; 0 otherwise.
    let tlsPort: UInt16
    /// Who signed that certificate: itself.
    var authority: String { "\(directory)/cert.pem" }

    static let path = "/usr/bin/turnserver"
    static var isInstalled: Bool { access(path, X_OK) == 0 }

    struct CannotStart: Error {}

    /// - Parameter name: for TLS with a certificate for this subject, "DNS:…" or "IP:…".
    init(tls name: String? = nil) throws {
        var template = Array("/tmp/decart-turn-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw CannotStart() }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        port = try LoopbackSocket.freePort()
        tlsPort = name == nil ? 0 : try LoopbackSocket.freePort()
        if let name {
            let status = system(
                "cd '\(directory)' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem "
                    + "-out cert.pem -days 3 -subj /CN=turn -addext subjectAltName=\(name) >/dev/null 2>&1")
            guard status == 0 else { throw CannotStart() }
        }
        let first = Int.random(in: 40_000...59_000)
        let tls =
            name == nil
            ? ["--no-tls"]
            : [
                "--tls-listening-port", "\(tlsPort)", "--cert", "\(directory)/cert.pem", "--pkey", "\(directory)/key.pem",
            ]
        let arguments = [
            Self.path, "-n", "-L", "127.0.0.1", "-E", "127.0.0.1", "-p", "\(port)",
            "--min-port", "\(first)", "--max-port", "\(first + 200)", "--relay-threads", "1",
            "-a", "-u", "test:pass", "-r", "example.org", "--allow-loopback-peers", "--no-cli", "--no-dtls",
            "--no-rfc5780", "-l", "stdout", "--pidfile", "\(directory)/pid", "-b", "\(directory)/db",
        ]
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw CannotStart() }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2)
        posix_spawn_file_actions_addclose(&actions, ends[0])
        var argv = (arguments + tls).map { strdup($0) }
        argv.append(nil)
        var pid: pid_t = 0
        let status = posix_spawn(&pid, Self.path, &actions, nil, argv, environ)
        posix_spawn_file_actions_destroy(&actions)
        for argument in argv { free(argument) }
        close(ends[1])
        output = ends[0]
        process = pid
        guard status == 0 else { throw CannotStart() }
        guard Self.waitForText("DB connection success", on: output) else { throw CannotStart() }
    }

    deinit {
        kill(process, SIGKILL)
        var status: Int32 = 0
        waitpid(process, &status, 0)
        close(output)
        for name in ["pid", "db", "db-shm", "db-wal", "cert.pem", "key.pem"] { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }

    /// Keeps it from answering; its sockets stay open.
    func freeze() { kill(process, SIGSTOP) }

    func server(_ transport: String) throws -> ICEServer {
        try ICEServer(url: "turn://test:pass@127.0.0.1:\(port)?transport=\(transport)")
    }

    func tlsServer(host: String, credential: String = "pass") throws -> ICEServer {
        try ICEServer(url: "turns://test:\(credential)@\(host):\(tlsPort)?transport=tcp")
    }

    private static func waitForText(_ text: String, on descriptor: Int32) -> Bool {
        var seen: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let deadline = ContinuousClock.now + .seconds(10)
        while ContinuousClock.now < deadline {
            var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&item, 1, 200) > 0 else { continue }
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return false }
            seen += buffer.prefix(count)
            if String(decoding: seen, as: UTF8.self).contains(text) { return true }
        }
        return false
    }
}

/// A socket on 127.0.0.1 that never answers.
final class LoopbackSocket: Sendable {
    let descriptor: Int32
    let port: UInt16

    struct CannotBind: Error {}

    init(stream: Bool = false) throws {
        descriptor = socket(AF_INET, Int32((stream ? SOCK_STREAM : SOCK_DGRAM).rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(descriptor, raw, length) == 0 && getsockname(descriptor, raw, &length) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard status, !stream || listen(descriptor, 8) == 0 else { throw CannotBind() }
    }

    deinit { close(descriptor) }

    /// Datagrams that have arrived and wait to be read.
    func hasReceived() -> Bool {
        var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&item, 1, 0) > 0
    }

    static func freePort() throws -> UInt16 { try LoopbackSocket().port }
}
