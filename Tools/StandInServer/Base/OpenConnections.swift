import Dispatch
import EventLoopThreads
import Synchronization

/// The accepted connections, upgraded or not: limits their number and closes them all.
final class OpenConnections: Sendable {
    private let connections = Mutex<[ObjectIdentifier: ClientConnection]>([:])
    private let limit: Int
    /// Entered for each connection.
    private let group = DispatchGroup()

    init(limit: Int) {
        self.limit = limit
    }

    var isFull: Bool { connections.withLock { $0.count >= limit } }

    /// Call it on the connection's thread.
    func add(_ connection: ClientConnection) {
        let id = ObjectIdentifier(connection)
        connections.withLock { $0[id] = connection }
        group.enter()
        connection.whenEnded { [self] in
            connections.withLock { _ = $0.removeValue(forKey: id) }
            group.leave()
        }
    }

    /// Notifies all connections of the shutdown, so that sessions end in order; closes those still open after `time`.
    func closeAll(within time: DispatchTimeInterval) {
        notify(ShutdownNotice())
        guard group.wait(timeout: .now() + time) == .timedOut else { return }
        forEach { $0.close() }
        _ = group.wait(timeout: .now() + time)
    }

    func notify(_ notice: any Sendable) {
        for connection in connections.withLock({ Array($0.values) }) { connection.notify(notice) }
    }

    /// Calls `body` with every connection, upgraded or not, on its thread.
    func forEach(_ body: @escaping @Sendable (ClientConnection) -> Void) {
        for connection in connections.withLock({ Array($0.values) }) { connection.thread.async { body(connection) } }
    }
}
