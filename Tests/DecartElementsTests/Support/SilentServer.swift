import Glibc
import TestSupport

/// A loopback server that never reads or writes.
final class SilentServer: Sendable {
    enum Kind: Sendable {
        /// The kernel completes each TCP handshake.
        case opens
        /// The accept queue is full, so that no handshake completes.
        case ignores
    }

    private let socket: LoopbackSocket
    private let fillers: [Int32]
    private let accepted = Watched<[Int32]>([])

    var port: Int { Int(socket.port) }
    var url: String { "ws://127.0.0.1:\(port)" }

    static func with(_ kind: Kind = .opens, _ body: (SilentServer) throws -> Void) throws {
        let server = try SilentServer(kind)
        defer { server.close() }
        try body(server)
    }

    private init(_ kind: Kind) throws {
        socket = try LoopbackSocket(stream: true, backlog: kind == .opens ? 64 : 0)
        // Each takes a place in the accept queue, whether or not its handshake completes.
        fillers =
            kind == .opens
            ? [] : (0..<3).map { [socket] _ in LoopbackSocket.connect(to: socket.port, isBlocking: false).descriptor }
    }

    /// Waits until `count` clients have connected since the start.
    func waitForConnections(_ count: Int, milliseconds: Int32 = 60_000) -> Bool {
        while accepted.value.count < count {
            var waiting = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, milliseconds) == 1 else { return false }
            let client = accept(socket.descriptor, nil, nil)
            if client >= 0 { accepted.change { $0.append(client) } }
        }
        return true
    }

    /// The listener closes with the last reference.
    private func close() {
        for descriptor in accepted.value + fillers { _ = Glibc.close(descriptor) }
    }
}
