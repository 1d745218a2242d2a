import Glibc

/// A loopback server that never reads or writes.
final class SilentServer: Sendable {
    enum Kind: Sendable {
        /// The kernel completes each TCP handshake.
        case opens
        /// The accept queue is full, so that no handshake completes.
        case ignores
    }

    let port: Int
    private let descriptor: Int32
    private let fillers: [Int32]
    private let accepted = Watched<[Int32]>([])

    var url: String { "ws://127.0.0.1:\(port)" }

    struct Failure: Error {}

    static func with(_ kind: Kind = .opens, _ body: (SilentServer) throws -> Void) throws {
        let server = try SilentServer(kind)
        defer { server.close() }
        try body(server)
    }

    init(_ kind: Kind) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.descriptor = descriptor
        guard descriptor >= 0 else { throw Failure() }
        var address = Self.loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, kind == .opens ? 64 : 0) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isListening else { throw Failure() }
        port = Int(UInt16(bigEndian: address.sin_port))
        fillers = kind == .opens ? [] : (0..<3).map { [port] _ in Self.filler(port: port) }
    }

    static func loopback(port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        return address
    }

    /// Opens a connection that takes a place in the accept queue, whether or not its handshake completes.
    private static func filler(port: Int) -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        var address = loopback(port: port)
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        return descriptor
    }

    /// Waits until `count` clients have connected since the start.
    func waitForConnections(_ count: Int, milliseconds: Int32 = 60_000) -> Bool {
        while accepted.value.count < count {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, milliseconds) == 1 else { return false }
            let client = accept(descriptor, nil, nil)
            if client >= 0 { accepted.change { $0.append(client) } }
        }
        return true
    }

    func close() {
        for descriptor in accepted.value + fillers + [descriptor] { _ = Glibc.close(descriptor) }
    }
}
