private import CGIO
private import Synchronization

/// The network threads of the process: at most one a core. The first starts with the first connection, a further one
/// when each has a connection. A connection stays on its thread, so connections share nothing but the threads.
package final class NetworkThreads: Sendable {
    package static let shared = NetworkThreads(first: { .shared }, limit: Int(g_get_num_processors()))

    private struct State {
        var threads: [NetworkThread] = []
        var connections: [Int] = []
    }
    private let state = Mutex(State())
    private let first: @Sendable () -> NetworkThread
    private let limit: Int

    package init(first: @escaping @Sendable () -> NetworkThread, limit: Int) {
        (self.first, self.limit) = (first, max(1, limit))
    }

    /// The place of one connection; released with it.
    package final class Place: Sendable {
        package let thread: NetworkThread
        private let end: @Sendable () -> Void

        fileprivate init(_ thread: NetworkThread, _ end: @escaping @Sendable () -> Void) {
            (self.thread, self.end) = (thread, end)
        }
        deinit { end() }
    }

    /// Assigns the thread with the fewest connections.
    package func assign() -> Place {
        let (index, thread) = state.withLock { state in
            var index = state.connections.indices.min { state.connections[$0] < state.connections[$1] }
            if index.map({ state.connections[$0] > 0 }) ?? true, state.threads.count < limit {
                let thread = state.threads.isEmpty ? first() : NetworkThread(name: "decart-net")
                // A further one that does not start is not needed.
                if state.threads.isEmpty || thread.start() {
                    index = state.threads.count
                    state.threads.append(thread)
                    state.connections.append(0)
                }
            }
            let chosen = index ?? 0
            state.connections[chosen] += 1
            return (chosen, state.threads[chosen])
        }
        return Place(thread) { [weak self] in self?.state.withLock { $0.connections[index] -= 1 } }
    }

    /// All threads that have started; those of connections that have ended too.
    package var all: [NetworkThread] { state.withLock { $0.threads } }
}
