import Glibc
import StandInServer
import TestSupport
import Testing

/// A TCP client that exposes every byte and the kind of the connection's end. Reads block, each with a timeout.
final class RawSocket {
    enum End: Equatable {
        case finished, reset, timedOut
        case failed(Int32)
    }

    private let descriptor: Int32
    private(set) var received: [UInt8] = []

    /// - Throws: `ConnectError` with errno.
    init(port: Int) throws {
        let error: Int32
        (descriptor, error) = LoopbackSocket.connect(to: UInt16(clamping: port))
        // deinit closes the descriptor even if `init` throws here.
        guard error == 0 else { throw ConnectError(code: error) }
    }

    struct ConnectError: Error, Equatable { let code: Int32 }

    deinit {
        Glibc.close(descriptor)
    }

    /// Opens a WebSocket; bytes after the response head are in `received`.
    static func webSocket(port: Int, target: String = TestServer.target) throws -> RawSocket {
        let client = try RawSocket(port: port)
        client.request(target)
        _ = client.read { head(in: $0) != nil }
        guard let end = head(in: client.received), client.text.hasPrefix("HTTP/1.1 101") else {
            throw TestClient.TimedOut()
        }
        client.received.removeFirst(end)
        return client
    }

    private static func head(in bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        return (4...bytes.count).first { bytes[($0 - 4)..<$0].elementsEqual([13, 10, 13, 10]) }
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

    /// Frames in `received`, in order: first byte, mask flag, payload length, payload as far as received.
    var frames: [(first: UInt8, isMasked: Bool, length: UInt64, payload: [UInt8])] {
        var frames: [(first: UInt8, isMasked: Bool, length: UInt64, payload: [UInt8])] = []
        var rest = received[...]
        while rest.count >= 2 {
            let first = rest.removeFirst()
            let second = rest.removeFirst()
            var length = UInt64(second & 0x7f)
            let extra = length == 126 ? 2 : length == 127 ? 8 : 0
            guard rest.count >= extra else { return frames }
            if extra > 0 { length = rest.prefix(extra).reduce(0) { $0 << 8 | UInt64($1) } }
            rest = rest.dropFirst(extra)
            let isMasked = second & 0x80 != 0
            if isMasked { rest = rest.dropFirst(4) }
            let payload = Array(rest.prefix(Int(clamping: length)))
            frames.append((first, isMasked, length, payload))
            rest = rest.dropFirst(payload.count)
        }
        return frames
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
