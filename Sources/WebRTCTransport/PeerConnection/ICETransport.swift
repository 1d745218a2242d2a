// The ICE transport of a connection: its ICE sessions, the candidates of both sides, ICE restarts, and the judgement of
// the path. It must not know DTLS or RTP.
import EventLoopThreads
import ICE
import Recovery
import Synchronization

// @unchecked: `agent` and `makeSession` may be used on any thread; all else that is not constant belongs to the network
// thread. The owner sets the closures before the first session.
final class ICETransport: @unchecked Sendable {
    /// ICE has connected for the first time.
    var onConnected: () -> Void = {}
    var onFailure: (PeerConnectionError) -> Void = { _ in }
    /// Called four times a second, once ICE has connected: one timer for all that a connection does regularly, because each
    /// one wakes the thread.
    var onTick: () -> Void = {}
    var onDatagram: @Sendable (UnsafeMutableRawBufferPointer) -> Void = { _ in }
    /// Called after datagrams that arrived together.
    var onBatchEnd: @Sendable () -> Void = {}

    private let configuration: PeerConnectionConfiguration
    private let network: NetworkThread
    private let videoSent: PacketCounter
    private let onEvent: @Sendable (PeerConnectionEvent) -> Void
    private let selectedAgent = Mutex<ICEAgent?>(nil)

    // MARK: Network thread only
    private var log: ICELog
    private var sessions: [ICESession] = []
    private var candidates = CandidateRouter()
    private var families = CandidateFamilies()
    /// Servers and policy of the next ICE session.
    private var servers: (list: [ICEServer], policy: ICETransportPolicy)
    /// The m-line of the transport; local candidates are signalled for it.
    private var bundle = (mid: "0", index: 0)
    /// There are TURN servers, and none of them gave a relay candidate.
    private var relaysAreMissing = false
    /// Set when ICE has connected.
    private var path: PathMonitor?
    private var pathTimer: NetworkTimer?
    private var lastSent: UInt64 = 0
    /// The round-trip time of the last consent check that was answered; nil before the first answer.
    private(set) var roundTrip: Duration?
    private var gatheringStartedAt: ContinuousClock.Instant?
    /// Not all servers are known yet.
    private var awaitsServers: Bool
    /// Candidates for the first offer, until it is made; nil: each one is signalled.
    private var offered: [String]?
    private var connectedAt: ContinuousClock.Instant?
    private var restarts = 0
    /// The connection has failed or is closed.
    private var isOver = false

    /// An offer may be part of a URL, whose length proxies limit.
    private static let maximumOffered = 16
    private static let retirement = Duration.seconds(2)

    /// - Parameter videoSent: counts the RTP packets of our video, which require feedback.
    init(
        _ configuration: PeerConnectionConfiguration, network: NetworkThread, videoSent: PacketCounter,
        onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) {
        (self.configuration, self.network) = (configuration, network)
        (self.videoSent, self.onEvent) = (videoSent, onEvent)
        log = ICELog(configuration.loggers.ice)
        servers = (configuration.iceServers, configuration.iceTransportPolicy)
        awaitsServers = configuration.awaitsServers
        if configuration.awaitsServers { offered = [] }
    }

    // MARK: Any thread

    /// The agent of the session that carries the packets; nil before the first session and after `close`.
    var agent: ICEAgent? { selectedAgent.withLock { $0 } }

    func makeSession(isControlling: Bool) throws(PeerConnectionError) -> ICESession {
        let number = ICESession.numbers.wrappingAdd(1, ordering: .relaxed).newValue
        if isControlling, let early = configuration.early, early.place.thread === network, early.take() {
            return ICESession(agent: early.agent, number: number, early: early)
        }
        do {
            let agent = try ICEAgent(
                configuration: configuration.ice(isControlling: isControlling), network: network,
                onEvent: { [weak self] event in self?.handle(event, of: number) },
                onDatagram: onDatagram, onBatchEnd: onBatchEnd)
            return ICESession(agent: agent, number: number)
        } catch { throw PeerConnectionError(.ice, "the ICE agent could not be created: \(error)") }
    }

    // MARK: Sessions

    private var current: ICESession? { sessions.first { $0.role == .current } }
    private var restart: ICESession? { sessions.first { $0.role == .restart } }

    /// Begins the first ICE session, or that of a restart.
    /// - Parameters:
    ///   - remote: the remote description, if it is known.
    ///   - reason: the cause of a restart, for the log.
    /// - Returns: false if the connection is over; the session is unused then.
    func begin(_ session: ICESession, remote: RemoteDescription?, reason: String?) -> Bool {
        guard !isOver else { return false }
        if current == nil {
            sessions.append(session)
            selectedAgent.withLock { $0 = session.agent }
            if session.early == nil { gather(session) } else { takeOver(session) }
        } else {
            begin(restart: session, reason)
        }
        if let remote { setRemote(remote) }
        return true
    }

    /// Gathers from the last servers too, with `awaitsServers` and at the first call.
    func addServers(_ servers: [ICEServer], policy: ICETransportPolicy) {
        let known = self.servers
        self.servers = (servers, policy)
        guard exchange(&awaitsServers, with: false), let current else { return }
        // The time of gathering counts from here: before, it ran beside the dialling of the control channel.
        gatheringStartedAt = nil
        guard known.policy == .all else { return gather(current) }
        began()
        let relays = servers.filter { $0.kind == .turn && !known.list.contains($0) }
        current.agent.addServers(relays, relayOnly: policy == .relay)
    }

    private func gather(_ session: ICESession) {
        if awaitsServers, servers.policy == .relay { return }
        began()
        session.agent.gatherCandidates(with: (servers.list, servers.policy), awaitsServers: awaitsServers)
    }

    private func began() {
        if gatheringStartedAt == nil { gatheringStartedAt = .now }
        log.gatheringStarts()
    }

    /// Its agent has gathered, and goes on.
    private func takeOver(_ session: ICESession) {
        began()
        session.early?.deliver(
            onEvent: { [weak self, number = session.number] in self?.handle($0, of: number) },
            onDatagram: onDatagram, onBatchEnd: onBatchEnd)
    }

    /// The candidates for the first offer; later ones are signalled.
    func takeOffered() -> [String] { offered.take() ?? [] }

    private func end(_ session: ICESession) {
        sessions.removeAll { $0 === session }
        session.close()
    }

    private func begin(restart session: ICESession, _ reason: String?) {
        // A restart during a restart replaces it.
        if let restart {
            candidates.ended(restart.remoteFragment)
            end(restart)
        }
        session.role = .restart
        sessions.append(session)
        session.limit = network.schedule(after: RecoveryPlan.ICE.restartTimeout) { [weak self] in
            self?.restartFailed(session, "no path within \(RecoveryPlan.ICE.restartTimeout.components.seconds) s")
        }
        log.restartBegins(reason)
        gather(session)
    }

    private func finishRestart(_ session: ICESession) {
        session.limit?.cancel()
        let previous = current
        session.role = .current
        selectedAgent.withLock { $0 = session.agent }
        if let previous {
            candidates.ended(previous.remoteFragment)
            retire(previous)
        }
        path?.cannotCheck = false
        restarts &+= 1
        arrived(.consent, now: MonotonicTime.now)
        log.restartEnds(session.agent.selectedPair, after: .now - session.startedAt)
        onEvent(.iceRestarted(succeeded: true))
    }

    private func retire(_ session: ICESession) {
        for other in sessions where other.role == .retired { end(other) }
        session.role = .retired
        session.limit = network.schedule(after: Self.retirement) { [weak self] in
            if let self { end(session) } else { session.close() }
        }
    }

    private func restartFailed(_ session: ICESession, _ cause: String) {
        guard restart === session else { return }
        candidates.ended(session.remoteFragment)
        end(session)
        log.restartFails(cause, after: .now - session.startedAt)
        onEvent(.iceRestarted(succeeded: false))
        if current?.hasFailed ?? false { failPath() }
    }

    /// Ends a restart whose offer is rolled back.
    func abandonRestart(_ cause: String) {
        if let restart { restartFailed(restart, cause) }
    }

    // MARK: Remote peer

    func setBundle(mid: String, index: Int) { bundle = (mid, index) }

    /// Applies the transport of a description: to the first ICE session, or to that of a restart.
    func setRemote(_ remote: RemoteDescription) {
        // A restart may be over already; its answer then changes nothing.
        guard let session = restart ?? current, session.remote == nil else { return }
        session.setRemote(remote.transport)
        for candidate in remote.candidates {
            log.received(remote: candidate)
            families.add(remote: candidate)
            session.agent.addRemoteCandidate(candidate)
        }
        for candidate in candidates.takeEarly()
        where candidates.route(candidate, remotes: [session.remoteFragment]) != nil {
            add(candidate)
        }
        // Candidates of another session than this description's stay unused.
        _ = candidates.takeEarly()
        if remote.endOfCandidates { session.agent.endOfRemoteCandidates() }
    }

    func add(_ candidate: ICECandidate?) {
        let running = [restart, current].compactMap(\.self)
        guard let index = candidates.route(candidate, remotes: running.map(\.remoteFragment)) else { return }
        let session = running[index]
        guard let candidate, !candidate.candidate.isEmpty else { return session.agent.endOfRemoteCandidates() }
        // All media share one BUNDLE transport: candidates of other m-lines do not apply.
        if let index = candidate.sdpMLineIndex, index != 0, index != bundle.index, candidate.sdpMid != bundle.mid {
            return
        }
        log.received(remote: candidate.candidate)
        families.add(remote: candidate.candidate)
        session.agent.addRemoteCandidate(candidate.candidate)
    }

    // MARK: Agents

    private func handle(_ event: ICEEvent, of number: Int) {
        guard let session = sessions.first(where: { $0.number == number && $0.role != .retired }) else { return }
        switch event {
        case .localCandidate(let text):
            log.gathered(local: text)
            families.add(local: text)
            if let count = offered?.count, count < Self.maximumOffered {
                offered?.append(text)
                return
            }
            onEvent(
                .localCandidate(
                    ICECandidate(
                        candidate: text, sdpMid: bundle.mid, sdpMLineIndex: bundle.index,
                        usernameFragment: session.agent.localUsernameFragment)))
        case .gatheringComplete:
            relaysAreMissing = log.gatheringEnded(turnServers: session.agent.counters.turnServers)
            if relaysAreMissing { onEvent(.relaysMissing) }
            onEvent(.gatheringComplete)
        case .warning(let text):
            log.warning(text)
        case .stateChanged(.connected), .stateChanged(.ready): connected(session)
        case .consentUnavailable:
            if session.role == .current { path?.cannotCheck = true }
        case .consentConfirmed(let time):
            guard session.role == .current else { return }
            roundTrip = time
            arrived(.consent, now: MonotonicTime.now)
        case .stateChanged(.failed): failed(session)
        case .stateChanged: break
        }
    }

    private func connected(_ session: ICESession) {
        if session.role == .restart { finishRestart(session) }
        guard connectedAt == nil else { return }
        connectedAt = .now
        log.connected(session.agent.selectedPair)
        path = PathMonitor(now: MonotonicTime.now, consentTimeout: configuration.consentTimeout)
        watchPath()
        onEvent(.iceConnected)
        onConnected()
    }

    private func failed(_ session: ICESession) {
        let isRestart = session.role == .restart
        // Once connected, `path` judges, but the end of a TCP connection is an end at once.
        let isTCP = session.agent.selectedPair?.transport == "tcp"
        guard path?.cannotCheck ?? true || isTCP || isRestart else { return }
        session.hasFailed = true
        if isRestart {
            restartFailed(session, session.agent.localFailure ?? "no answer to the connectivity checks")
        } else if restart == nil {
            if connectedAt == nil { failPath(session.agent.localFailure) } else { pathClosed(session) }
        }
    }

    /// A remote peer that restarts ICE closes its TCP connections, and its offer follows.
    private func pathClosed(_ session: ICESession) {
        if path?.closed() == true {
            log.pathClosed()
            onEvent(.disconnected)
        }
        session.limit = network.schedule(after: RecoveryPlan.ICE.closedPathTimeout) { [weak self] in
            guard let self, self.restart == nil, self.current === session else { return }
            self.failPath()
        }
    }

    // MARK: Path

    func closeTCPPath() {
        guard let current, current.agent.selectedPair?.transport == "tcp" else { return }
        current.agent.close()
    }

    /// Call for each authentic packet.
    func arrived(_ arrival: PathMonitor.Arrival, now: Duration) {
        guard path?.arrived(arrival, now: now) == .reconnected else { return }
        log.reconnected()
        onEvent(.reconnected)
    }

    /// Call when the remote peer reports that our media do not arrive.
    func suspect() { path?.suspect(now: MonotonicTime.now) }

    private func watchPath() {
        let sent = videoSent.packets
        let sends = sent != lastSent
        lastSent = sent
        for verdict in path?.tick(now: MonotonicTime.now, jitter: Double.random(in: 0...1), sends: sends) ?? [] {
            switch verdict {
            case .check: current?.agent.checkConsent()
            case .disconnected:
                log.disconnected()
                onEvent(.disconnected)
            case .reconnected: break
            case .expired:
                current?.hasFailed = true
                if restart == nil { failPath() }
            }
        }
        guard !isOver else { return }
        onTick()
        pathTimer = network.schedule(after: .milliseconds(250)) { [weak self] in self?.watchPath() }
    }

    /// - Parameter localCause: why this host has no candidate, if that is the cause.
    private func failPath(_ localCause: String? = nil) {
        guard !isOver else { return }
        log.failed()
        let cause =
            if connectedAt != nil {
                "the network path to the remote peer failed"
            } else if relaysAreMissing {
                "no network path to the remote peer was found; no TURN server gave a relay"
            } else if let differing = families.disjoint {
                "no network path to the remote peer was found; this host has \(differing.local) addresses and the remote peer "
                    + "\(differing.remote) ones: set turn-servers"
            } else {
                "no network path to the remote peer was found; check that UDP passes, or set turn-servers"
            }
        onFailure(PeerConnectionError(.ice, localCause ?? cause))
    }

    func fill(_ statistics: inout PeerConnectionStatistics) {
        statistics.selectedPair = current?.agent.selectedPair
        statistics.iceRestarts = restarts
        statistics.iceTime = gatheringStartedAt.flatMap { from in connectedAt.map { $0 - from } }
    }

    // MARK: End

    /// The connection has failed; the sessions stay until `close`.
    func stop() { isOver = true }

    func close() {
        if !isOver { log.closes() }
        isOver = true
        pathTimer?.cancel()
        for session in sessions { session.close() }
        sessions = []
        selectedAgent.withLock { $0 = nil }
    }
}
