import EventLoopThreads
import Glibc
import StandInServer
import TestSupport
import Testing

/// A TCP client that exposes every byte and the kind of the connection's end. Reads block, each with a timeout.
// @unchecked: one thread reads; others may send and close meanwhile.
final class RawSocket: @unchecked Sendable {
    enum End: Equatable {
        case finished, reset, timedOut
        case failed(Int32)
    }

    private let descriptor: Int32
    /// `openssl s_client`, which speaks TLS on the other end of the socket.
    private var process: pid_t?
    private(set) var received: [UInt8] = []

    /// - Parameter trust: a PEM certificate; nil connects without TLS.
    /// - Throws: `ConnectError` with errno.
    init(port: Int, host: String = "127.0.0.1", trust: String? = nil) throws {
        if let trust {
            var ends: [Int32] = [-1, -1]
            guard socketpair(AF_UNIX, Self.kind, 0, &ends) == 0 else { throw ConnectError(code: errno) }
            descriptor = ends[0]
            defer { Glibc.close(ends[1]) }
            process = try Self.startTLS(port, trust, on: ends[1])
        } else {
            guard let address = SocketAddress(ip: host, port: port) else { throw ConnectError(code: EINVAL) }
            let descriptor = socket(address.family, Self.kind, 0)
            self.descriptor = descriptor
            // deinit closes the descriptor even if `init` throws here.
            guard address.withSocketAddress({ connect(descriptor, $0, $1) }) == 0 else {
                throw ConnectError(code: errno)
            }
        }
    }

    private static let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)

    struct ConnectError: Error, Equatable { let code: Int32 }

    private static func startTLS(_ port: Int, _ trust: String, on descriptor: Int32) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for standard in [STDIN_FILENO, STDOUT_FILENO] {
            posix_spawn_file_actions_adddup2(&actions, descriptor, standard)
        }
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        let words =
            ["openssl", "s_client", "-quiet", "-connect", "127.0.0.1:\(port)", "-CAfile", trust]
            + ["-verify_return_error", "-verify_hostname", "localhost"]
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process = pid_t()
        let error = posix_spawnp(&process, "openssl", &actions, nil, &arguments, environ)
        guard error == 0 else { throw ConnectError(code: error) }
        return process
    }

    deinit {
        close()
        Glibc.close(descriptor)
        var status: Int32 = 0
        if let process { waitpid(process, &status, 0) }
    }

    /// Ends the connection.
    func close() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        if let process { kill(process, SIGKILL) }
    }

    /// Opens a WebSocket; bytes after the response head are in `received`.
    static func webSocket(
        port: Int, host: String = "127.0.0.1", target: String = TestServer.target, trust: String? = nil
    ) throws -> RawSocket {
        let client = try RawSocket(port: port, host: host, trust: trust)
        client.request(target)
        client.read { head(in: $0) != nil }
        guard let end = head(in: client.received), client.text.hasPrefix("HTTP/1.1 101") else {
            let status = client.text.split(separator: " ").dropFirst().first.flatMap { UInt($0) }
            throw status.map { TestClient.Refused(status: $0) } ?? TestClient.TimedOut() as any Error
        }
        client.received.removeFirst(end)
        return client
    }

    private static func head(in bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        return (4...bytes.count).first { bytes[($0 - 4)..<$0].elementsEqual([13, 10, 13, 10]) }
    }

    /// Keeps the system from taking in what is never read: its receive buffer would grow to dozens of megabytes.
    func limitReceiveBuffer() {
        var size: Int32 = 65_536
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }

    var text: String { String(decoding: received, as: UTF8.self) }

    func request(_ target: String, host: String = "localhost", extra: String = "") {
        send(
            "GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\(extra)Connection: Upgrade\r\nUpgrade: websocket\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) {
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Reads until the condition holds (returns nil), the peer closes, or the time is over.
    @discardableResult
    func read(seconds: Double = 20, until condition: ([UInt8]) -> Bool = { _ in false }) -> End? {
        let deadline = ContinuousClock.now + .seconds(seconds)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while !condition(received) {
            let left = deadline - .now
            let (whole, part) = left.components
            guard left > .zero else { return .timedOut }
            var time = timeval(tv_sec: Int(whole), tv_usec: max(Int(part / 1_000_000_000_000), 1))
            setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
            let count = recv(descriptor, &buffer, buffer.count, 0)
            switch count {
            case 0: return .finished
            case 1...: received += buffer[..<count]
            default:
                switch errno {
                case EAGAIN, EINTR: continue
                case ECONNRESET: return .reset
                default: return .failed(errno)
                }
            }
        }
        return nil
    }

    /// The payload is as far as received.
    typealias Frame = (first: UInt8, isMasked: Bool, length: UInt64, payload: [UInt8])

    /// Frames in `received`, in order.
    var frames: [Frame] {
        var rest = received[...]
        var frames: [Frame] = []
        while let frame = Self.takeFrame(&rest) { frames.append(frame) }
        return frames
    }

    /// Reads until a frame is complete, and takes it out of `received`; nil: the connection has ended.
    func nextFrame() -> Frame? {
        while true {
            var rest = received[...]
            if let frame = Self.takeFrame(&rest), frame.payload.count == frame.length {
                received = Array(rest)
                return frame
            }
            let count = received.count
            guard read(seconds: 600, until: { $0.count > count }) == nil else { return nil }
        }
    }

    private static func takeFrame(_ rest: inout ArraySlice<UInt8>) -> Frame? {
        guard rest.count >= 2 else { return nil }
        let (first, second) = (rest.removeFirst(), rest.removeFirst())
        var length = UInt64(second & 0x7f)
        let extra = length == 126 ? 2 : length == 127 ? 8 : 0
        guard rest.count >= extra else { return nil }
        if extra > 0 { length = rest.prefix(extra).reduce(0) { $0 << 8 | UInt64($1) } }
        let isMasked = second & 0x80 != 0
        rest = rest.dropFirst(extra + (isMasked ? 4 : 0))
        let payload = Array(rest.prefix(Int(clamping: length)))
        rest = rest.dropFirst(payload.count)
        return (first, isMasked, length, payload)
    }
}

/// Runs `body` with a server that has these faults.
func withFaults(_ specs: String..., body: (TestServer) throws -> Void) throws {
    try TestServer.run({ $0.faults = try FaultPlan(parsing: specs).faults }, body)
}

/// Runs `body` with a server that has these faults, and a client that has received its greeting.
func withClient(_ specs: String..., body: (TestClient, TestServer) throws -> Void) throws {
    try TestServer.run({ $0.faults = try FaultPlan(parsing: specs).faults }) { try body($0.greeted(), $0) }
}

/// The same with a client that shows every byte.
func withRawClient(_ spec: String, body: (RawSocket, TestServer) throws -> Void) throws {
    try withFaults(spec) { try body(RawSocket.webSocket(port: $0.port), $0) }
}

/// Returns the whole response to a request. The server then closes the connection.
/// - Parameter extra: further header fields, each with its line end.
func ask(
    _ port: Int, _ method: String, _ target: String, body: String = "", host: String = "Host: localhost\r\n",
    extra: String = ""
) throws -> String {
    let client = try RawSocket(port: port)
    let head = "\(method) \(target) HTTP/1.1\r\n\(host)\(extra)Content-Length: \(body.utf8.count)"
    client.send(head + "\r\n\r\n" + body)
    #expect(client.read() == .finished)
    return client.text
}
