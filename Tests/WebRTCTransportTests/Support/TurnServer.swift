import Glibc
import ICE

/// coturn on loopback with files of its own; ends with the object.
final class TurnServer: Sendable {
    static let path = "/usr/bin/turnserver"
    static var isInstalled: Bool { access(path, X_OK) == 0 }
    struct CannotStart: Error {}

    let port: UInt16
    private let process: ChildProcess
    private let directory: String

    init() throws {
        var template = Array("/tmp/decart-turn-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw CannotStart() }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        port = try DatagramSocket().port
        let first = Int.random(in: 40_000...59_000)
        process = try ChildProcess([
            Self.path, "-n", "-L", "127.0.0.1", "-E", "127.0.0.1", "-p", "\(port)", "--min-port", "\(first)",
            "--max-port", "\(first + 200)", "--relay-threads", "1", "-a", "-u", "test:pass", "-r", "example.org",
            "--allow-loopback-peers", "--no-cli", "--no-tls", "--no-dtls", "--no-rfc5780", "-l", "stdout",
            "--pidfile", "\(directory)/pid", "-b", "\(directory)/db",
        ])
        let isUp = Watched(false)
        process.readLines { line in
            // It says so last, when its sockets are open.
            if String(decoding: line, as: UTF8.self).contains("DB connection success") { isUp.change { $0 = true } }
        }
        guard isUp.wait(.seconds(10), until: { $0 }) else { throw CannotStart() }
    }

    deinit {
        _ = process.end(within: .zero)
        for name in ["pid", "db", "db-shm", "db-wal"] { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }

    func server(_ transport: String) throws -> ICEServer {
        try ICEServer(url: "turn://test:pass@127.0.0.1:\(port)?transport=\(transport)")
    }
}
