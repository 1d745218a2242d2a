// Runs all probes at the same time. Each probe does its whole way itself, from the name lookup on, so that none waits
// for another.
import DecartProtocol
import Dispatch
import Synchronization

package struct ConnectionCheck: Sendable {
    private let configuration: CheckConfiguration

    package init(_ configuration: CheckConfiguration) { self.configuration = configuration }

    /// Runs all probes and returns their results in the order of the stack. Blocks for a little longer than the limit
    /// of a probe.
    package func run() -> [ProbeResult] {
        let probes = self.probes
        let board = Board(count: probes.count)
        for (index, probe) in probes.enumerated() {
            probe { result in board.store(result, at: index) }
        }
        // Each probe keeps the limit itself; this is for a bug in one.
        _ = board.isFull.wait(timeout: .now() + .milliseconds(configuration.limit.milliseconds + 10_000))
        return board.results.withoutConsequences()
    }

    typealias Probe = @Sendable (_ completion: @escaping @Sendable (ProbeResult) -> Void) -> Void

    private var probes: [Probe] {
        let configuration = configuration
        let stun: [Probe] = [{ STUNProbe.run(configuration.stun, configuration, completion: $0) }]
        let turn: [Probe] =
            configuration.turn.isEmpty
            ? [{ $0(.notTried(.turn, "", "Not tried: no TURN server is given; see --turn-servers.")) }]
            : configuration.turn.map { server in { STUNProbe.run(server, configuration, completion: $0) } }
        return [
            { ServiceProbes.lookUp(configuration, completion: $0) },
            { ServiceProbes.connect(configuration, completion: $0) },
            { ServiceProbes.handshake(configuration, completion: $0) },
            { KeyProbe.run(configuration, completion: $0) },
        ] + stun + turn
    }

    /// The results as they come in.
    private final class Board: Sendable {
        /// Signalled when the last result is there.
        let isFull = DispatchSemaphore(value: 0)
        private let state: Mutex<[ProbeResult?]>

        init(count: Int) { state = Mutex([ProbeResult?](repeating: nil, count: count)) }

        /// Later results for the same probe are ignored.
        func store(_ result: ProbeResult, at index: Int) {
            let isLast = state.withLock { state in
                guard state.indices.contains(index), state[index] == nil else { return false }
                state[index] = result
                return state.allSatisfy { $0 != nil }
            }
            if isLast { isFull.signal() }
        }

        var results: [ProbeResult] { state.withLock { $0.compactMap(\.self) } }
    }
}
