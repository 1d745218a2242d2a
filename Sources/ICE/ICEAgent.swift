// The public interface of the ICE target. This file knows threads and lifetimes; ICEAgentCore knows libnice.
private import CNice
package import EventLoopThreads
private import Synchronization

/// An ICE agent with one stream of one component (rtcp-mux).
///
/// All methods can be called from any thread, and none waits for the network. Callbacks run on the network thread.
/// After `close()` has returned, a callback that is already in progress there may still finish; no other one begins.
/// Releasing the agent closes it.
package final class ICEAgent: Sendable {
    package let localUsernameFragment: String
    package let localPassword: String

    private let network: NetworkThread
    private let core: ICEAgentCore

    /// - Parameters:
    ///   - onEvent: called on the network thread.
    ///   - onDatagram: called on the network thread for each datagram that is not STUN. libnice owns the bytes, which
    ///     are valid only during the call and may be modified in place (SRTP does).
    ///   - onBatchEnd: called on the network thread after the last of the datagrams that were read together.
    package init(
        configuration: ICEConfiguration,
        network: NetworkThread = .shared,
        onEvent: @escaping @Sendable (ICEEvent) -> Void,
        onDatagram: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void,
        onBatchEnd: @escaping @Sendable () -> Void = {}
    ) throws(ICEError) {
        core = try ICEAgentCore(
            configuration: configuration, network: network, onEvent: onEvent, onDatagram: onDatagram,
            onBatchEnd: onBatchEnd)
        self.network = network
        localUsernameFragment = core.localCredentials.usernameFragment
        localPassword = core.localCredentials.password
    }

    deinit { close() }

    /// Starts gathering. Only the first call takes effect. Candidates follow as events.
    /// - Parameters:
    ///   - later: servers and policy that became known later, in place of the configuration's.
    ///   - awaitsServers: gathering does not end before `addServers`.
    package func gatherCandidates(
        with later: (servers: [ICEServer], policy: ICETransportPolicy)? = nil, awaitsServers: Bool = false
    ) {
        network.async { [core] in core.gatherCandidates(with: later, awaitsServers: awaitsServers) }
    }

    /// Gathers from the last servers too, TURN servers only.
    /// - Parameter relayOnly: No other path is used any more; candidates that were found before are of no use then.
    package func addServers(_ servers: [ICEServer], relayOnly: Bool) {
        network.async { [core] in core.addServers(servers, relayOnly: relayOnly) }
    }

    /// Sets the peer's `ice-ufrag` and `ice-pwd`. Only the first call takes effect; it also passes the candidates
    /// that arrived earlier to libnice, in order.
    package func setRemoteCredentials(usernameFragment: String, password: String) {
        network.async { [core] in
            core.setRemoteCredentials(usernameFragment: usernameFragment, password: password)
        }
    }

    /// Adds a remote candidate, "candidate:…" or "a=candidate:…". Counts and drops a candidate that cannot be used.
    package func addRemoteCandidate(_ candidate: String) {
        network.async { [core] in core.addRemoteCandidate(candidate) }
    }

    /// Signals the end of remote candidates: from now on a failure is final.
    package func endOfRemoteCandidates() {
        network.async { [core] in core.endOfRemoteCandidates() }
    }

    /// Sends a datagram over the selected pair, from any thread. It does not block on the network, and allocates memory
    /// only if libnice must send: to a TURN server.
    ///
    /// - Returns: `false` without a pair, after `close()`, or if the socket's send buffer is full.
    @discardableResult
    package func send(_ datagram: UnsafeRawBufferPointer) -> Bool {
        core.send(datagram)
    }

    /// Sends datagrams in order over the selected pair, from any thread: several in one system call, if no TURN server
    /// relays.
    /// - Parameter onSent: gets the index of each datagram that was sent.
    package func send(_ datagrams: [UnsafeRawBufferPointer], onSent: (Int) -> Void) {
        core.send(datagrams, onSent: onSent)
    }

    /// System calls that sent more than one datagram over the present pair, and the datagrams in them.
    package var batches: (calls: Int, datagrams: Int) { core.batches }

    /// Sends a consent check (RFC 7675) over the selected pair; `consentConfirmed` follows if the peer answers.
    package func checkConsent() {
        network.async { [core] in core.checkConsent() }
    }

    package var selectedPair: ICECandidatePair? { core.selectedPair }

    package var counters: ICECounters { core.counters }

    /// Why this host has no candidate; nil if that is not the cause of a failure.
    package var localFailure: String? { core.localFailure }

    /// Returns at once. The network thread then deallocates the TURN allocations and closes the sockets, which takes at
    /// most about two seconds if the TURN server does not answer.
    ///
    /// - Parameter onReleased: called on the network thread after the last socket is closed. Only the first `close`
    ///   counts; the closures of later calls are dropped.
    package func close(onReleased: (@Sendable () -> Void)? = nil) {
        guard let last = core.beginClose() else { return }
        network.async { [core] in core.finishClose(sending: last, onReleased: onReleased) }
    }
}
