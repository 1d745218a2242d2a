// libnice, seen from Swift. It knows libnice's order of calls (transport.md N1-N4) and no DTLS, RTP or SDP.
private import CNice
private import Synchronization

/// All of an agent that belongs to the network thread, and the three small locked parts that do not.
// Everything that is `var` here is touched on the network thread only, after `init`; what other threads may touch is a
// Mutex or an Atomic.
final class ICEAgentCore: @unchecked Sendable {
    /// Remote candidates one agent looks at: a browser sends about ten, a hostile peer any number.
    static let maximumRemoteCandidates = 128
    /// After so long the peer is told that no more candidates come, even if a server has not answered.
    static let gatheringLimit = Duration.seconds(10)

    /// How long a peer without a single usable candidate may still reach us from an address it did not announce
    /// (a browser that hides behind mDNS names does).
    static let patience = Duration.seconds(10)

    let localCredentials: (usernameFragment: String, password: String)

    // MARK: Any thread

    // libnice locks inside; the Mutex around the pointer keeps it alive while another thread sends.
    private struct Handle: @unchecked Sendable { let agent: OpaquePointer }
    private let sendHandle: Mutex<Handle?>
    private let closed = Atomic<Bool>(false)
    private let shared = Mutex<Shared>(Shared())
    private struct Shared {
        var pair: ICECandidatePair?
        var counters = ICECounters()
    }

    // MARK: Network thread

    private let network: NetworkThread
    private var configuration: ICEConfiguration
    /// Owned: one reference, given back at the end of `finishClose`.
    private let agent: OpaquePointer
    private let stream: UInt32
    private var signals: [UInt] = []
    private var onEvent: (@Sendable (ICEEvent) -> Void)?
    private var onDatagram: (@Sendable (UnsafeMutableRawBufferPointer) -> Void)?
    private var state = ICEState.new
    private var servers: ServerSetup?
    /// Each lives as long as the agent: libnice gives its allocations back through it.
    private var tunnels: [any RelayTunnel] = []
    private var allServersKnown = false
    private var libniceHasGathered = false
    private var hasGathered = false
    private var gatheringTimer: NetworkTimer?
    private var hasRemoteCredentials = false
    private var earlyCandidates: [CandidateLine] = []
    private var seenCandidates = 0
    private var hasRemoteEnd = false
    private var hasUsableRemote = false
    private var patienceTimer: NetworkTimer?
    private var hasBeenConnected = false
    private var componentHasFailed = false

    init(
        configuration: ICEConfiguration, network: NetworkThread,
        onEvent: @escaping @Sendable (ICEEvent) -> Void,
        onDatagram: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void
    ) throws(ICEError) {
        // Nothing calls back before gathering starts on the network thread, so the agent can be made right here.
        // Not CONSENT_FRESHNESS: libnice 0.1.21 then asks every 5 s, once, and gives up 10 s after the last answer, where
        // RFC 7675 says 30, so that two lost round trips in a row end a session (measured: 6 of 9 runs of 30 s at 5 to 10 %
        // loss). Without it, it asks as often, the keep-alive being a check, and gives up after 50 s. RTCP cannot stand in
        // for consent: a far side that is paused sends none.
        let options = NICE_AGENT_OPTION_ICE_TRICKLE.rawValue
        guard
            let agent = nice_agent_new_full(
                network.context.pointer, NICE_COMPATIBILITY_RFC5245, NiceAgentOption(rawValue: options))
        else { throw .cannotCreateAgent }
        let stream = nice_agent_add_stream(agent, 1)
        var fragment: UnsafeMutablePointer<CChar>?
        var password: UnsafeMutablePointer<CChar>?
        defer {
            g_free(fragment)
            g_free(password)
        }
        guard stream != 0, nice_agent_get_local_credentials(agent, stream, &fragment, &password) != 0,
            let fragment, let password
        else {
            gst_decart_nice_unref(agent)
            throw .cannotCreateAgent
        }
        localCredentials = (String(cString: fragment), String(cString: password))
        self.agent = agent
        self.stream = stream
        self.configuration = configuration
        self.network = network
        self.onEvent = onEvent
        self.onDatagram = onDatagram
        sendHandle = Mutex(Handle(agent: agent))
        gst_decart_nice_configure(
            agent, configuration.isControlling ? 1 : 0, configuration.policy == .relay ? 1 : 0, 0)
        attachReceive()
        connectSignals()
    }

    // MARK: - Any thread

    func send(_ datagram: UnsafeRawBufferPointer) -> Bool {
        guard let base = datagram.baseAddress, let length = UInt32(exactly: datagram.count), length > 0 else {
            return false
        }
        // Lock order: this one, then libnice's own. libnice holds its lock across none of our callbacks.
        return sendHandle.withLock { handle in
            guard let handle else { return false }
            let sent = nice_agent_send(handle.agent, stream, 1, length, base.assumingMemoryBound(to: CChar.self))
            return sent == Int32(clamping: length)
        }
    }

    var selectedPair: ICECandidatePair? { shared.withLock { $0.pair } }
    var counters: ICECounters { shared.withLock { $0.counters } }

    /// - Returns: whether this call is the one that closes.
    func beginClose() -> Bool {
        guard !closed.exchange(true, ordering: .sequentiallyConsistent) else { return false }
        sendHandle.withLock { $0 = nil }
        return true
    }

    // MARK: - Gathering

    func gatherCandidates(servers list: [ICEServer], policy: ICETransportPolicy) {
        network.preconditionOnThread()
        guard !isClosed, servers == nil else { return }
        (configuration.servers, configuration.policy) = (list, policy)
        gst_decart_nice_configure(agent, configuration.isControlling ? 1 : 0, policy == .relay ? 1 : 0, 0)
        gatherCandidates()
    }

    func gatherCandidates() {
        network.preconditionOnThread()
        guard !isClosed, servers == nil else { return }
        let families = addLocalAddresses()
        // The closures end with `servers`, at the latest when the agent closes.
        let setup = ServerSetup(
            network: network, hasIPv4: families.hasIPv4, hasIPv6: families.hasIPv6,
            actions: ServerSetup.Actions(
                setSTUN: { [self] host, port in gst_decart_nice_set_stun_server(agent, host, UInt32(port)) },
                addTURN: { [self] server, address, port in addRelay(server, at: address, port) },
                openTunnel: configuration.openTunnel.map { open in { [self] server in openTunnel(server, by: open) } },
                warn: { [self] text in emit(.warning(text)) },
                begin: { [self] in beginGathering() },
                finish: { [self] in
                    allServersKnown = true
                    if libniceHasGathered { completeGathering() }
                }))
        servers = setup
        gatheringTimer = network.schedule(after: Self.gatheringLimit) { [weak self] in self?.completeGathering() }
        setup.start(configuration.servers)
    }

    private func beginGathering() {
        guard !isClosed else { return }
        guard nice_agent_gather_candidates(agent, stream) != 0 else {
            emit(.warning("no local address could be opened for ICE"))
            completeGathering()
            change(to: .failed)
            return
        }
    }

    /// libnice leaves out loopback (trap N1), where stand-ins live; so every address is named, loopback included.
    private func addLocalAddresses() -> (hasIPv4: Bool, hasIPv6: Bool) {
        var families = (hasIPv4: false, hasIPv6: false)
        for text in LocalAddresses.all() {
            var address = NiceAddress()
            nice_address_init(&address)
            guard nice_address_set_from_string(&address, text) != 0,
                nice_agent_add_local_address(agent, &address) != 0
            else { continue }
            if nice_address_ip_version(&address) == 6 { families.hasIPv6 = true } else { families.hasIPv4 = true }
        }
        return families
    }

    /// Allowed before and after gathering has begun; libnice then gathers on.
    private func addRelay(_ server: ICEServer, at address: String, _ port: UInt16) {
        guard !isClosed else { return }
        libniceHasGathered = false
        let accepted = nice_agent_set_relay_info(
            agent, stream, 1, address, UInt32(port), server.username ?? "", server.credential ?? "",
            server.transport == .udp ? NICE_RELAY_TYPE_TURN_UDP : NICE_RELAY_TYPE_TURN_TCP)
        if accepted == 0 { emit(.warning("\(server.withoutAddress) skipped: libnice does not accept it")) }
    }

    private func openTunnel(_ server: ICEServer, by open: RelayTunnelOpener) {
        tunnels.append(
            open(server) { [weak self, network] event in
                network.async { [weak self] in self?.tunnel(of: server, event) }
            })
    }

    private func tunnel(of server: ICEServer, _ event: RelayTunnelEvent) {
        switch event {
        case .open(let port): servers?.tunnelSettled(server, port: port)
        case .failed(let reason):
            emit(.warning("\(server.withoutAddress): \(server.withoutAddress(in: reason))"))
            servers?.tunnelSettled(server, port: nil)
        }
    }

    private func libniceGathered() {
        libniceHasGathered = true
        if allServersKnown { completeGathering() }
    }

    private func completeGathering() {
        gatheringTimer?.cancel()
        gatheringTimer = nil
        guard !isClosed, !hasGathered else { return }
        hasGathered = true
        emit(.gatheringComplete)
    }

    fileprivate func gathered(_ candidate: UnsafeMutablePointer<NiceCandidate>) {
        // RFC 8838 §13: nothing follows the end of candidates.
        guard !isClosed, !hasGathered, candidate.pointee.transport == NICE_CANDIDATE_TRANSPORT_UDP else { return }
        guard let line = nice_agent_generate_local_candidate_sdp(agent, candidate) else { return }
        defer { g_free(line) }
        let text = String(cString: line)
        emit(.localCandidate(text.hasPrefix("a=") ? String(text.dropFirst(2)) : text))
    }

    // MARK: - The peer

    func setRemoteCredentials(usernameFragment: String, password: String) {
        network.preconditionOnThread()
        guard !isClosed, !hasRemoteCredentials else { return }
        // RFC 8839 §5.4.
        guard (4...256).contains(usernameFragment.utf8.count), (22...256).contains(password.utf8.count),
            usernameFragment.utf8.allSatisfy(\.isICECharacter), password.utf8.allSatisfy(\.isICECharacter),
            nice_agent_set_remote_credentials(agent, stream, usernameFragment, password) != 0
        else {
            emit(.warning("the peer's ICE credentials are not valid"))
            change(to: .failed)
            return
        }
        hasRemoteCredentials = true
        let early = earlyCandidates
        earlyCandidates = []
        hand(early)
        if hasRemoteEnd { passRemoteEnd() }
    }

    func addRemoteCandidate(_ text: String) {
        network.preconditionOnThread()
        guard !isClosed else { return }
        guard seenCandidates < Self.maximumRemoteCandidates else {
            shared.withLock { $0.counters.candidatesBeyondLimit &+= 1 }
            return
        }
        seenCandidates &+= 1
        do throws(CandidateLine.Rejection) {
            let candidate = try CandidateLine.parse(text)
            shared.withLock { $0.counters.candidatesAccepted &+= 1 }
            if hasRemoteCredentials { hand([candidate]) } else { earlyCandidates.append(candidate) }
        } catch {
            shared.withLock { shared in
                switch error {
                case .malformed: shared.counters.candidatesMalformed &+= 1
                case .mdns: shared.counters.candidatesMDNS &+= 1
                case .unusable: shared.counters.candidatesUnusable &+= 1
                }
            }
        }
    }

    func endOfRemoteCandidates() {
        network.preconditionOnThread()
        guard !isClosed, !hasRemoteEnd else { return }
        hasRemoteEnd = true
        if hasRemoteCredentials { passRemoteEnd() }
    }

    private func hand(_ candidates: [CandidateLine]) {
        var list: UnsafeMutablePointer<GSList>?
        for candidate in candidates {
            guard let parsed = nice_agent_parse_remote_candidate_sdp(agent, stream, candidate.sdpAttribute) else {
                continue
            }
            parsed.pointee.component_id = 1
            list = g_slist_append(list, parsed)
        }
        guard let list else { return }
        hasUsableRemote = true
        // libnice copies what it keeps.
        _ = nice_agent_set_remote_candidates(agent, stream, 1, list)
        g_slist_free_full(list) { data in
            nice_candidate_free(data?.assumingMemoryBound(to: NiceCandidate.self))
        }
    }

    private func passRemoteEnd() {
        _ = nice_agent_peer_candidate_gathering_done(agent, stream)
        // Trap N3: a failure before this moment was not final; now it is.
        if componentHasFailed { change(to: .failed) }
        guard !hasUsableRemote, state != .failed else { return }
        // Without a pair libnice has nothing to check, and so nothing that could fail.
        patienceTimer = network.schedule(after: Self.patience) { [weak self] in
            guard let self, !self.hasBeenConnected, !self.isClosed else { return }
            self.emit(.warning("the peer sent no candidate that can be used"))
            self.change(to: .failed)
        }
    }

    // MARK: - What libnice tells

    private func connectSignals() {
        connect(
            "candidate-gathering-done",
            unsafeBitCast(
                { _, _, data in ICEAgentCore.from(data)?.libniceGathered() }
                    as @convention(c) (OpaquePointer?, UInt32, UnsafeMutableRawPointer?) -> Void, to: GCallback.self))
        connect(
            "new-candidate-full",
            unsafeBitCast(
                { _, candidate, data in
                    guard let candidate else { return }
                    ICEAgentCore.from(data)?.gathered(candidate)
                }
                    as @convention(c) (OpaquePointer?, UnsafeMutablePointer<NiceCandidate>?, UnsafeMutableRawPointer?)
                    ->
                    Void, to: GCallback.self))
        connect(
            "component-state-changed",
            unsafeBitCast(
                { _, _, _, state, data in ICEAgentCore.from(data)?.componentChanged(to: state) }
                    as @convention(c) (OpaquePointer?, UInt32, UInt32, UInt32, UnsafeMutableRawPointer?) -> Void,
                to: GCallback.self))
        connect(
            "new-selected-pair-full",
            unsafeBitCast(
                { _, _, _, local, remote, data in
                    guard let local, let remote else { return }
                    ICEAgentCore.from(data)?.selected(local: local, remote: remote)
                }
                    as @convention(c) (
                        OpaquePointer?, UInt32, UInt32, UnsafeMutablePointer<NiceCandidate>?,
                        UnsafeMutablePointer<NiceCandidate>?, UnsafeMutableRawPointer?
                    ) -> Void, to: GCallback.self))
    }

    private func connect(_ name: String, _ handler: GCallback) {
        // Each handler owns one reference to the core, given back when it is disconnected.
        let id = gst_decart_nice_connect(
            agent, name, handler, Unmanaged.passRetained(self).toOpaque(),
            { data, _ in
                guard let data else { return }
                Unmanaged<ICEAgentCore>.fromOpaque(data).release()
            })
        signals.append(id)
    }

    private func attachReceive() {
        // Unretained: the signal handlers keep the core alive, and receiving is detached before they go.
        nice_agent_attach_recv(
            agent, stream, 1, network.context.pointer,
            { _, _, _, length, bytes, data in
                guard let bytes, let core = ICEAgentCore.from(data), !core.isClosed else { return }
                core.onDatagram?(UnsafeMutableRawBufferPointer(start: bytes, count: Int(length)))
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private static func from(_ data: UnsafeMutableRawPointer?) -> ICEAgentCore? {
        data.map { Unmanaged<ICEAgentCore>.fromOpaque($0).takeUnretainedValue() }
    }

    private func componentChanged(to raw: UInt32) {
        guard !isClosed else { return }
        switch raw {
        case NICE_COMPONENT_STATE_GATHERING.rawValue: change(to: .gathering)
        case NICE_COMPONENT_STATE_CONNECTING.rawValue:
            componentHasFailed = false
            change(to: .checking)
        case NICE_COMPONENT_STATE_CONNECTED.rawValue:
            componentHasFailed = false
            hasBeenConnected = true
            change(to: .connected)
        case NICE_COMPONENT_STATE_READY.rawValue:
            componentHasFailed = false
            hasBeenConnected = true
            change(to: .ready)
        case NICE_COMPONENT_STATE_FAILED.rawValue:
            componentHasFailed = true
            if hasRemoteEnd || hasBeenConnected { change(to: .failed) }
        default: break
        }
    }

    private func selected(
        local: UnsafeMutablePointer<NiceCandidate>, remote: UnsafeMutablePointer<NiceCandidate>
    ) {
        let pair = ICECandidatePair(borrowing: local, remote)
        shared.withLock { $0.pair = pair }
    }

    private func change(to next: ICEState) {
        // `failed` is final.
        guard !isClosed, state != next, state != .failed else { return }
        state = next
        emit(.stateChanged(next))
    }

    private func emit(_ event: ICEEvent) {
        guard !isClosed else { return }
        onEvent?(event)
    }

    private var isClosed: Bool { closed.load(ordering: .acquiring) }

    // MARK: - The end

    /// Trap N4's order: stop receiving, stop the signals, close, wait, remove the stream, let go.
    func finishClose(onReleased: (@Sendable () -> Void)?) {
        network.preconditionOnThread()
        gatheringTimer?.cancel()
        gatheringTimer = nil
        patienceTimer?.cancel()
        patienceTimer = nil
        servers?.cancel()
        nice_agent_attach_recv(agent, stream, 1, network.context.pointer, nil, nil)
        // Keeps `self` through the release of the handlers' references and until libnice answers.
        let keep = Unmanaged.passRetained(self)
        for id in signals { gst_decart_nice_disconnect(agent, id) }
        signals = []
        onEvent = nil
        onDatagram = nil
        earlyCandidates = []
        if let onReleased { Self.notify(onReleased, of: agent) }
        gst_decart_nice_hasten_close(agent)
        nice_agent_close_async(
            agent,
            { _, _, data in
                guard let data else { return }
                let core = Unmanaged<ICEAgentCore>.fromOpaque(data).takeRetainedValue()
                nice_agent_remove_stream(core.agent, core.stream)
                gst_decart_nice_unref(core.agent)
                for tunnel in core.tunnels { tunnel.close() }
                core.tunnels = []
            }, keep.toOpaque())
    }

    private static func notify(_ body: @escaping @Sendable () -> Void, of agent: OpaquePointer) {
        final class Box {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        gst_decart_nice_on_release(
            agent,
            { data, _ in
                guard let data else { return }
                Unmanaged<Box>.fromOpaque(data).takeRetainedValue().body()
            }, Unmanaged.passRetained(Box(body)).toOpaque())
    }
}
