// ICE-TCP (RFC 6544), for a network that passes no UDP: connections to the passive candidates of the remote peer, after UDP
// and in place of a relay. This file decides when and to which candidate. Each connection uses the credentials of the session,
// so that the remote peer sees one agent that is reached over TCP as well.
import EventLoopThreads
import Recovery

/// The TCP connections of an ICE session, one after the other. Belongs to the network thread.
// @unchecked: used only on the network thread.
final class TCPFallback: @unchecked Sendable {
    enum Event {
        case connected(TCPConnection)
        case confirmed(roundTrip: Duration)
        /// The connection that carried the packets.
        case lost
        /// No candidate is left.
        case exhausted
    }

    /// A peer may name any addresses; servers offer one or two.
    private static let maximumCandidates = 4

    private enum Phase { case new, headStart, trying, connected, exhausted, stopped }

    private let network: NetworkThread
    private let headStart: Duration
    private let connect: (CandidateLine, @escaping (TCPConnection.Event) -> Void) -> TCPConnection?
    private let onEvent: (Event) -> Void
    private var phase = Phase.new
    private var candidates: [CandidateLine] = []
    private var seenCandidates = 0
    private var connection: TCPConnection?
    /// Names the connection in its events.
    private var number = 0
    private var timer: NetworkTimer?

    init(
        network: NetworkThread, headStart: Duration,
        connect: @escaping (CandidateLine, @escaping (TCPConnection.Event) -> Void) -> TCPConnection?,
        onEvent: @escaping (Event) -> Void
    ) {
        (self.network, self.headStart) = (network, headStart)
        (self.connect, self.onEvent) = (connect, onEvent)
    }

    /// The connection that carries the packets.
    var connected: TCPConnection? { phase == .connected ? connection : nil }
    var isTrying: Bool { phase == .headStart || phase == .trying }

    /// The first one begins the head start of UDP.
    func add(_ candidate: CandidateLine) {
        guard seenCandidates < Self.maximumCandidates else { return }
        seenCandidates += 1
        candidates.append(candidate)
        switch phase {
        case .new:
            phase = .headStart
            timer = network.schedule(after: headStart) { [weak self] in self?.connectNext() }
        case .exhausted: connectNext()
        case .headStart, .trying, .connected, .stopped: break
        }
    }

    /// UDP has found a pair, or the session ends.
    func stop() {
        phase = .stopped
        timer?.cancel()
        connection?.close()
        connection = nil
    }

    private func connectNext() {
        phase = .trying
        timer?.cancel()
        connection?.close()
        connection = nil
        while connection == nil,
            let index = candidates.indices.max(by: { candidates[$0].priority < candidates[$1].priority })
        {
            number += 1
            let number = number
            connection = connect(candidates.remove(at: index)) { [weak self] event in self?.handle(event, of: number) }
        }
        guard connection != nil else {
            phase = .exhausted
            return onEvent(.exhausted)
        }
        timer = network.schedule(after: RecoveryPlan.ICE.tcpTimeout) { [weak self] in self?.connectNext() }
    }

    private func handle(_ event: TCPConnection.Event, of number: Int) {
        guard number == self.number, let connection else { return }
        switch event {
        case .connected:
            guard phase == .trying else { return }
            phase = .connected
            timer?.cancel()
            onEvent(.connected(connection))
        case .confirmed(let time): onEvent(.confirmed(roundTrip: time))
        case .failed where phase == .connected: onEvent(.lost)
        case .failed: connectNext()
        }
    }
}
