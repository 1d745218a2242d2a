// ICE-TCP (RFC 6544), for a network that passes no UDP: connections to the passive candidates of the remote peer, after UDP
// and in place of a relay. This file decides when and to which candidate; ICEAgentCore makes the libnice calls.
import EventLoopThreads
//
// Each connection has an agent of its own, with the credentials of the session, so that the remote peer sees one agent that
// is reached over TCP as well. libnice gathers once: TCP in the first agent would give each address of each session a
// listening socket. It drops the TCP candidates that a controlling agent gets after its first check. And the connections of
// an agent share one buffer for what has arrived of a frame, so one agent connects to one candidate.

/// The TCP connections of an ICE session, one after the other. Belongs to the network thread.
// @unchecked: used only on the network thread.
final class TCPFallback: @unchecked Sendable {
    enum Event {
        case connected(ICEAgentCore), ready
        /// The connection that carried the packets.
        case lost
        /// No candidate is left.
        case exhausted
        case other(ICEEvent)
    }

    /// A connection to a dead address would take minutes to fail.
    private static let limit = Duration.seconds(4)
    /// A peer may name any addresses; servers offer one or two.
    private static let maximumCandidates = 4

    private enum Phase { case new, headStart, trying, connected, exhausted, stopped }

    private let network: NetworkThread
    private let headStart: Duration
    private let connect: (CandidateLine, @escaping @Sendable (ICEEvent) -> Void) -> ICEAgentCore?
    private let onEvent: (Event) -> Void
    private var phase = Phase.new
    private var candidates: [CandidateLine] = []
    private var seenCandidates = 0
    private var agent: ICEAgentCore?
    /// Names the agent in its events.
    private var number = 0
    private var timer: NetworkTimer?

    init(
        network: NetworkThread, headStart: Duration,
        connect: @escaping (CandidateLine, @escaping @Sendable (ICEEvent) -> Void) -> ICEAgentCore?,
        onEvent: @escaping (Event) -> Void
    ) {
        (self.network, self.headStart) = (network, headStart)
        (self.connect, self.onEvent) = (connect, onEvent)
    }

    /// The agent that carries the packets.
    var connected: ICEAgentCore? { phase == .connected ? agent : nil }
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
        agent?.end()
        agent = nil
    }

    private func connectNext() {
        phase = .trying
        timer?.cancel()
        agent?.end()
        agent = nil
        while agent == nil,
            let index = candidates.indices.max(by: { candidates[$0].priority < candidates[$1].priority })
        {
            number += 1
            let number = number
            agent = connect(candidates.remove(at: index)) { [weak self] event in self?.handle(event, of: number) }
        }
        guard agent != nil else {
            phase = .exhausted
            return onEvent(.exhausted)
        }
        timer = network.schedule(after: Self.limit) { [weak self] in self?.connectNext() }
    }

    private func handle(_ event: ICEEvent, of number: Int) {
        guard number == self.number, let agent else { return }
        switch event {
        case .stateChanged(.connected), .stateChanged(.ready):
            if phase == .trying {
                phase = .connected
                timer?.cancel()
                onEvent(.connected(agent))
            }
            if event == .stateChanged(.ready) { onEvent(.ready) }
        case .stateChanged(.failed) where phase == .connected: onEvent(.lost)
        case .stateChanged(.failed):
            // Not inside the agent's own signal, which it could not survive.
            timer?.cancel()
            timer = network.schedule(after: .zero) { [weak self] in self?.connectNext() }
        case .stateChanged, .localCandidate, .gatheringComplete: break
        case .consentConfirmed, .consentUnavailable, .warning: onEvent(.other(event))
        }
    }
}
