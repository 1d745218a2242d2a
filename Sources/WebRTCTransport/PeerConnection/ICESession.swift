// One ICE session (RFC 8445 §4) of a connection. An ICE restart begins another one beside it, with an agent of its own:
// libnice gathers once for each stream, so a stream keeps its sockets, and with them the addresses, of its beginning.
import EventLoopThreads
import ICE
import Synchronization

/// An agent, and what the remote peer has signalled for it.
// @unchecked: constant, or used on the network thread only.
final class ICESession: @unchecked Sendable {
    enum Role {
        /// Carries the packets.
        case current
        /// Belongs to an ICE restart that has not connected yet.
        case restart
        /// Was replaced by a restart; receives for a moment, because the remote peer may switch later.
        case retired
    }

    let agent: ICEAgent
    /// Names the session in the agent's callbacks.
    let number: Int
    let startedAt = ContinuousClock.now
    var role = Role.current
    /// Ends a restart that finds no path, or a retirement.
    var limit: NetworkTimer?
    /// The remote peer's credentials; nil before its description.
    private(set) var remote: TransportParameters?
    var remoteFragment: String? { remote?.usernameFragment }
    /// The agent reported a failure; for a session that waits for the end of a restart.
    var hasFailed = false

    /// The agent has gathered already; see `EarlyGathering`.
    let early: EarlyGathering?

    static let numbers = Atomic<Int>(0)

    init(agent: ICEAgent, number: Int, early: EarlyGathering? = nil) {
        (self.agent, self.number, self.early) = (agent, number, early)
    }

    func setRemote(_ transport: TransportParameters) {
        remote = transport
        agent.setRemoteCredentials(usernameFragment: transport.usernameFragment, password: transport.password)
    }

    func close() {
        limit?.cancel()
        agent.close()
    }
}
