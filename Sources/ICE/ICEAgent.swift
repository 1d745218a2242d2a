// The face of ICE: what other targets may call. It knows threads and lifetimes; ICEAgentCore knows libnice.
private import CNice
private import Synchronization

/// An ICE agent with one stream of one component (rtcp-mux).
///
/// Every call is allowed from any thread and none of them waits for the network. Callbacks come on the network thread.
/// They must not be relied on to end with `close()`: none *begins* after `close()` has returned, but one that is
/// already running elsewhere may still finish. Dropping the agent closes it.
package final class ICEAgent: Sendable {
    package let localUsernameFragment: String
    package let localPassword: String

    private let network: NetworkThread
    private let core: ICEAgentCore

    /// - Parameters:
    ///   - onEvent: on the network thread.
    ///   - onDatagram: on the network thread; the bytes are libnice's, valid during the call, and may be changed in
    ///     place (SRTP does). STUN never gets here.
    package init(
        configuration: ICEConfiguration,
        network: NetworkThread = .shared,
        onEvent: @escaping @Sendable (ICEEvent) -> Void,
        onDatagram: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void
    ) throws(ICEError) {
        core = try ICEAgentCore(
            configuration: configuration, network: network, onEvent: onEvent, onDatagram: onDatagram)
        self.network = network
        localUsernameFragment = core.localCredentials.usernameFragment
        localPassword = core.localCredentials.password
    }

    deinit { close() }

    /// Starts gathering; once. Candidates follow as events.
    package func gatherCandidates() {
        network.async { [core] in core.gatherCandidates() }
    }

    /// The same with other servers and another policy than the configuration's, which were not known then.
    package func gatherCandidates(servers: [ICEServer], policy: ICETransportPolicy) {
        network.async { [core] in core.gatherCandidates(servers: servers, policy: policy) }
    }

    /// The peer's `ice-ufrag` and `ice-pwd`; once. Candidates that came before are handed on now, in their order.
    package func setRemoteCredentials(usernameFragment: String, password: String) {
        network.async { [core] in
            core.setRemoteCredentials(usernameFragment: usernameFragment, password: password)
        }
    }

    /// A candidate of the peer, "candidate:…" or "a=candidate:…". What cannot be used is counted and dropped.
    package func addRemoteCandidate(_ candidate: String) {
        network.async { [core] in core.addRemoteCandidate(candidate) }
    }

    /// The peer has no more candidates: from now on a failure is final.
    package func endOfRemoteCandidates() {
        network.async { [core] in core.endOfRemoteCandidates() }
    }

    /// Sends one datagram over the selected pair. Any thread; never blocks on the network, allocates nothing of ours.
    ///
    /// - Returns: `false` without a pair, after `close()` and when the socket's buffer is full.
    @discardableResult
    package func send(_ datagram: UnsafeRawBufferPointer) -> Bool {
        core.send(datagram)
    }

    /// The pair in use, once there is one.
    package var selectedPair: ICECandidatePair? { core.selectedPair }

    package var counters: ICECounters { core.counters }

    /// Returns at once. Sockets go, and TURN allocations are given back, on the network thread a little later: at most
    /// some two seconds if the TURN server is silent.
    ///
    /// - Parameter onReleased: on the network thread, when the last socket is gone. Only the first `close` counts; the
    ///   closure of a later one is dropped.
    package func close(onReleased: (@Sendable () -> Void)? = nil) {
        guard core.beginClose() else { return }
        network.async { [core] in core.finishClose(onReleased: onReleased) }
    }
}
