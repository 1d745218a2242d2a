// The wrapper around libnice. It knows in which order libnice must be called, and no DTLS, RTP or SDP.
private import CNice
import EventLoopThreads
private import Synchronization

/// The agent's state: most of it belongs to the network thread, the rest is atomic or behind one of two mutexes.
// @unchecked: after `init`, only the network thread uses the `var` properties; other threads use those that are a Mutex
// or an Atomic.
final class ICEAgentCore: @unchecked Sendable {
    /// Limit for remote candidates per agent: a browser sends about ten, a hostile peer any number.
    static let maximumRemoteCandidates = 128
    /// Timeout after which gathering ends and the peer receives end-of-candidates, even if a STUN or TURN server has
    /// not answered.
    static let gatheringLimit = Duration.seconds(10)

    /// Timeout for a peer without any usable candidate. Until then it may still reach us from an address that it did
    /// not signal, as a browser that sends only mDNS names does.
    static let remoteCandidateTimeout = Duration.seconds(10)

    /// Once per process, before the first agent: GLib makes the process ignore SIGPIPE when the class of its sockets is
    /// made, although it sends with MSG_NOSIGNAL.
    private static let makesSocketClass: Void = keepingHostsSIGPIPE { _ = g_type_class_ref(g_socket_get_type()) }

    private static let hasWorker = Atomic(false)

    /// Starts GLib's worker thread, once per process: closing an agent would start it, and GLib aborts the process if no
    /// descriptor or thread is left then.
    private static func startWorker() -> Bool {
        guard !hasWorker.load(ordering: .relaxed) else { return true }
        guard ProcessLimits.hasThreads(4) else { return false }
        _ = g_type_class_ref(g_task_get_type())
        hasWorker.store(true, ordering: .relaxed)
        return true
    }

    /// Datagrams that one connection may have read before it is the turn of the others.
    private static let maximumDatagrams = 64

    let localCredentials: ICECredentials

    // MARK: Any thread

    private struct Output: Sendable {
        var hasPair = false
        /// nil if libnice must send: to a TURN server, or over TCP.
        var route: DirectRoute?
        /// Wait for the network thread: libnice 0.1.21 empties the queue of a TCP connection there, without the lock under
        /// which other threads fill it.
        var waiting: [[UInt8]] = []
    }
    private static let maximumWaiting = 256
    /// nil after `beginClose`.
    private let output = Mutex<Output?>(Output())
    private let closed = Atomic<Bool>(false)
    private let shared = Mutex<Shared>(Shared())
    private struct Shared {
        var pair: ICECandidatePair?
        var counters = ICECounters()
        var localFailure: String?
    }

    // MARK: Network thread

    private let network: NetworkThread
    private var configuration: ICEConfiguration
    /// Holds one reference, released at the end of `finishClose`.
    private let ownAgent: OpaquePointer
    /// For libnice, whose functions attach sources to the network thread's context.
    private var agent: OpaquePointer {
        network.sourcesMayChange()
        return ownAgent
    }
    private let stream: UInt32
    private var onEvent: (@Sendable (ICEEvent) -> Void)?
    private var onDatagram: (@Sendable (UnsafeMutableRawBufferPointer) -> Void)?
    private var onBatchEnd: (@Sendable () -> Void)?
    /// The socket of the selected pair, which `readMedia` reads; −1: none.
    private var mediaDescriptor: CInt = -1
    private var state = ICEState.new
    private var servers: ServerSetup?
    /// Kept open until the agent is closed, because libnice sends the TURN deallocation through them.
    private var tunnels: [any RelayTunnel] = []
    private var gathering = Gathering()
    private struct Gathering {
        var hasLocalAddress = false
        var allServersKnown = false
        var isDoneByLibnice = false
        var isComplete = false
        var timer: NetworkTimer?
    }
    private var remote = Remote()
    private struct Remote {
        var credentials: ICECredentials?
        /// Wait for the credentials.
        var earlyCandidates: [CandidateLine] = []
        var seenCandidates = 0
        var hasUsableCandidate = false
        var hasEnd = false
        /// Runs from the end of the candidates if none is usable.
        var timer: NetworkTimer?
    }
    /// nil before the remote credentials are known.
    private var consent: ConsentChecks?
    /// libnice judges the pair, because there are no consent checks for it.
    private var checksKeepalives = false
    private var hasBeenConnected = false
    private var componentHasFailed = false
    /// nil until the remote peer offers to accept TCP.
    private var tcp: TCPFallback?

    init(
        configuration: ICEConfiguration, network: NetworkThread,
        onEvent: @escaping @Sendable (ICEEvent) -> Void,
        onDatagram: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void,
        onBatchEnd: @escaping @Sendable () -> Void
    ) throws(ICEError) {
        _ = Self.makesSocketClass
        // For the context of its component, for that of GLib's worker thread, and for the first sockets.
        guard ProcessLimits.hasDescriptors(8) else { throw .tooManyOpenFiles }
        guard Self.startWorker() else { throw .noThread }
        // The agent is created on the caller's thread: no callback runs before gathering starts on the network thread.
        // NICE_AGENT_OPTION_CONSENT_FRESHNESS is not set; see ConsentChecks.
        let options = NICE_AGENT_OPTION_ICE_TRICKLE.rawValue
        guard
            let agent = nice_agent_new_full(
                network.context, NICE_COMPATIBILITY_RFC5245, NiceAgentOption(rawValue: options))
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
            g_object_unref(UnsafeMutableRawPointer(agent))
            throw .cannotCreateAgent
        }
        localCredentials = ICECredentials(
            usernameFragment: String(cString: fragment), password: String(cString: password))
        ownAgent = agent
        self.stream = stream
        self.configuration = configuration
        self.network = network
        self.onEvent = onEvent
        self.onDatagram = onDatagram
        self.onBatchEnd = onBatchEnd
        configure()
        attachReceive()
        connectSignals()
    }

    private func configure() {
        gst_decart_nice_configure(
            agent, configuration.isControlling ? 1 : 0, configuration.policy == .relay ? 1 : 0,
            configuration.network.listensForTCP ? 1 : 0, configuration.checkRetransmissions)
    }

    // MARK: - Any thread

    func send(_ datagram: UnsafeRawBufferPointer) -> Bool {
        guard !datagram.isEmpty else { return false }
        // The lock keeps the route's socket open: libnice closes it after `beginClose` only.
        let (isSent, isFirst) = output.withLock { output in
            if let isSent = output?.route?.send(datagram) { return (isSent, false) }
            guard let count = output?.waiting.count, output?.hasPair == true, count < Self.maximumWaiting else {
                return (false, false)
            }
            output?.waiting.append(Array(datagram))
            return (true, count == 0)
        }
        if isFirst { network.async { [weak self] in self?.sendWaiting() } }
        return isSent
    }

    func send(_ datagrams: [UnsafeRawBufferPointer], onSent: (Int) -> Void) {
        let isDone = output.withLock { output in
            guard output?.route != nil else { return false }
            output?.route?.send(datagrams, onSent: onSent)
            return true
        }
        guard !isDone else { return }
        for (index, datagram) in datagrams.enumerated() where send(datagram) { onSent(index) }
    }

    private func sendWaiting() {
        deliver(
            output.withLock { output in
                defer { output?.waiting = [] }
                return output?.waiting ?? []
            })
    }

    /// Sends over TCP, or through libnice.
    private func deliver(_ datagrams: [[UInt8]]) {
        let connection = tcp?.connected
        for datagram in datagrams {
            // One that the socket does not take is lost, as on the network.
            datagram.withUnsafeBytes { bytes in
                if let connection {
                    _ = connection.send(bytes)
                } else {
                    _ = nice_agent_send(
                        agent, stream, 1, UInt32(clamping: bytes.count),
                        bytes.baseAddress?.assumingMemoryBound(to: CChar.self))
                }
            }
        }
    }

    var batches: (calls: Int, datagrams: Int) { output.withLock { $0?.route?.batches } ?? (0, 0) }
    var selectedPair: ICECandidatePair? { shared.withLock { $0.pair } }
    var counters: ICECounters { shared.withLock { $0.counters } }
    var localFailure: String? { shared.withLock { $0.localFailure } }

    /// Stops sending.
    /// - Returns: for the first call only, the datagrams that wait for the network thread, such as a DTLS alert: that
    ///   caller must continue with `finishClose`.
    func beginClose() -> [[UInt8]]? {
        guard !closed.exchange(true, ordering: .sequentiallyConsistent) else { return nil }
        return output.withLock { output in
            defer { output = nil }
            return output?.waiting ?? []
        }
    }

    // MARK: - Gathering

    func gatherCandidates(with later: (servers: [ICEServer], policy: ICETransportPolicy)?, awaitsServers: Bool) {
        network.preconditionOnThread()
        guard !isClosed, servers == nil else { return }
        if let later {
            (configuration.servers, configuration.policy) = later
            configure()
        }
        let families = addLocalAddresses()
        // The closure retains the core until `finishClose` cancels `servers`.
        let setup = ServerSetup(
            network: network, hasIPv4: families.hasIPv4, hasIPv6: families.hasIPv6,
            opensTunnels: configuration.openTunnel != nil,
            permits: configuration.permitsRemote
        ) { [self] action in
            switch action {
            case .setSTUN(let host, let port): gst_decart_nice_set_stun_server(agent, host, UInt32(port))
            case .addTURN(let server, let address, let port): addRelay(server, at: address, port)
            case .openTunnel(let server, let address): openTunnel(server, at: address)
            case .warn(let text): emit(.warning(text))
            case .begin: beginGathering()
            case .finish:
                gathering.allServersKnown = true
                if gathering.isDoneByLibnice { completeGathering() }
            }
        }
        servers = setup
        if !awaitsServers { limitGathering() }
        setup.start(configuration.servers, awaitsMore: awaitsServers)
    }

    private func limitGathering() {
        gathering.timer = network.schedule(after: Self.gatheringLimit) { [weak self] in self?.completeGathering() }
    }

    func addServers(_ more: [ICEServer], relayOnly: Bool) {
        network.preconditionOnThread()
        guard !isClosed, let servers, !gathering.isComplete else { return }
        if relayOnly {
            configuration.policy = .relay
            // Checks on other paths may have come. Ours in return would nominate these paths, which the remote peer then
            // prefers to the relay, while libnice drops what comes on them.
            if remote.credentials == nil {
                gst_decart_nice_forget_checks(
                    agent, stream, localCredentials.usernameFragment, localCredentials.password)
            }
            gst_decart_nice_force_relay(agent)
        }
        limitGathering()
        servers.add(more)
    }

    private func beginGathering() {
        guard !isClosed else { return }
        guard gathering.hasLocalAddress, nice_agent_gather_candidates(agent, stream) != 0 else {
            let cause = configuration.network.failure
            emit(.warning(cause))
            shared.withLock { $0.localFailure = cause }
            completeGathering()
            change(to: .failed)
            return
        }
        // A server that the peer names may name another one in turn.
        if !configuration.permitsRemote("127.0.0.1") { RedirectFilter.attach(to: agent, stream: stream) }
    }

    /// Adds the local addresses that ICE may use. libnice by itself ignores the loopback interface, where a local server
    /// listens; without any address it would take those of all interfaces, `AddressSelection` notwithstanding.
    private func addLocalAddresses() -> (hasIPv4: Bool, hasIPv6: Bool) {
        if let ports = configuration.network.ports {
            nice_agent_set_port_range(agent, stream, 1, UInt32(ports.lowerBound), UInt32(ports.upperBound))
        }
        var families = (hasIPv4: false, hasIPv6: false)
        let selection = configuration.network.selection()
        if selection.omitted > 0, !selection.chosen.isEmpty {
            emit(
                .warning(
                    "\(selection.omitted) of this host's addresses are not used for ICE, which uses at most "
                        + "\(AddressSelection.maximumOfFamily) of each family; local-address selects others"))
        }
        for text in selection.chosen where addLocalAddress(text) {
            gathering.hasLocalAddress = true
            if text.contains(":") { families.hasIPv6 = true } else { families.hasIPv4 = true }
        }
        return families
    }

    private func addLocalAddress(_ text: String) -> Bool {
        var address = NiceAddress()
        nice_address_init(&address)
        return nice_address_set_from_string(&address, text) != 0 && nice_agent_add_local_address(agent, &address) != 0
    }

    /// Adds a TURN server. If gathering is in progress, libnice extends it to this server.
    private func addRelay(_ server: ICEServer, at address: String, _ port: UInt16) {
        guard !isClosed else { return }
        gathering.isDoneByLibnice = false
        let accepted = nice_agent_set_relay_info(
            agent, stream, 1, address, UInt32(port), server.username ?? "", server.credential ?? "",
            server.transport == .udp ? NICE_RELAY_TYPE_TURN_UDP : NICE_RELAY_TYPE_TURN_TCP)
        if accepted == 0 { return emit(.warning("\(server.withoutAddress) skipped: libnice does not accept it")) }
        shared.withLock { $0.counters.turnServers &+= 1 }
    }

    private func openTunnel(_ server: ICEServer, at address: String) {
        guard let open = configuration.openTunnel else { return }
        tunnels.append(
            open(server, address) { [weak self, network] event in
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
        gathering.isDoneByLibnice = true
        if gathering.allServersKnown { completeGathering() }
    }

    private func completeGathering() {
        gathering.timer?.cancel()
        guard !isClosed, !gathering.isComplete else { return }
        gathering.isComplete = true
        emit(.gatheringComplete)
    }

    fileprivate func gathered(_ candidate: UnsafeMutablePointer<NiceCandidate>) {
        // RFC 8838 §13: no candidate may follow end-of-candidates.
        guard !isClosed, !gathering.isComplete else { return }
        // A peer needs no active candidates: it accepts connections of an address that it does not know.
        let transport = candidate.pointee.transport
        guard transport == NICE_CANDIDATE_TRANSPORT_UDP || transport == NICE_CANDIDATE_TRANSPORT_TCP_PASSIVE else {
            return
        }
        guard let line = nice_agent_generate_local_candidate_sdp(agent, candidate) else { return }
        defer { g_free(line) }
        let text = String(cString: line)
        emit(.localCandidate(text.hasPrefix("a=") ? String(text.dropFirst(2)) : text))
    }

    // MARK: - Remote peer

    func setRemoteCredentials(usernameFragment: String, password: String) {
        network.preconditionOnThread()
        guard !isClosed, remote.credentials == nil else { return }
        // RFC 8839 §5.4.
        guard (4...256).contains(usernameFragment.utf8.count), (22...256).contains(password.utf8.count),
            usernameFragment.utf8.allSatisfy(\.isICECharacter), password.utf8.allSatisfy(\.isICECharacter),
            nice_agent_set_remote_credentials(agent, stream, usernameFragment, password) != 0
        else {
            emit(.warning("the remote peer sent invalid ICE credentials"))
            change(to: .failed)
            return
        }
        remote.credentials = ICECredentials(usernameFragment: usernameFragment, password: password)
        consent = ConsentChecks(
            local: localCredentials.usernameFragment, remote: usernameFragment, remotePassword: password)
        let early = remote.earlyCandidates
        remote.earlyCandidates = []
        hand(early)
        if remote.hasEnd { passRemoteEnd() }
    }

    func checkConsent() {
        network.preconditionOnThread()
        guard !isClosed, let consent else { return }
        if let connection = tcp?.connected { return connection.check() }
        guard gst_decart_nice_selected_descriptor(agent, stream) >= 0 else {
            // A pair over a TURN server has no socket for datagrams: libnice checks it, and fails after 50 s.
            if !checksKeepalives { gst_decart_nice_check_keepalives(agent) }
            checksKeepalives = true
            return emit(.consentUnavailable)
        }
        consent.withCheck(isControlling: gst_decart_nice_is_controlling(agent) != 0, now: Self.now) { check in
            _ = send(check)
        }
    }

    private static var now: Duration { .microseconds(NetworkThread.now) }

    /// Reads the next datagram if it is the response to one of our checks, which libnice would drop.
    private func readResponse() -> Bool {
        guard let consent, consent.isWaiting else { return false }
        return withUnsafeTemporaryAllocation(byteCount: 2048, alignment: 8) { buffer in
            func read(peeks: Bool) -> UnsafeMutableRawBufferPointer {
                let length = gst_decart_receive(mediaDescriptor, buffer.baseAddress, buffer.count, peeks ? 1 : 0)
                return UnsafeMutableRawBufferPointer(rebasing: buffer[..<max(0, min(length, buffer.count))])
            }
            guard consent.mayBeResponse(UnsafeRawBufferPointer(read(peeks: true))) else { return false }
            if let time = consent.roundTrip(of: read(peeks: false), now: Self.now) {
                emit(.consentConfirmed(roundTrip: time))
            }
            return true
        }
    }

    func addRemoteCandidate(_ text: String) {
        network.preconditionOnThread()
        guard !isClosed else { return }
        guard remote.seenCandidates < Self.maximumRemoteCandidates else {
            shared.withLock { $0.counters.candidatesBeyondLimit &+= 1 }
            return
        }
        remote.seenCandidates &+= 1
        do throws(CandidateLine.Rejection) {
            let candidate = try CandidateLine.parse(text)
            guard configuration.permitsRemote(candidate.address) else { throw .unusable }
            shared.withLock { $0.counters.candidatesAccepted &+= 1 }
            if remote.credentials != nil { hand([candidate]) } else { remote.earlyCandidates.append(candidate) }
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
        guard !isClosed, !remote.hasEnd else { return }
        remote.hasEnd = true
        if remote.credentials != nil { passRemoteEnd() }
    }

    private func hand(_ candidates: [CandidateLine]) {
        var list: UnsafeMutablePointer<GSList>?
        for candidate in candidates {
            guard candidate.transport == .udp else {
                addTCP(candidate)
                continue
            }
            guard let parsed = nice_agent_parse_remote_candidate_sdp(agent, stream, candidate.sdpAttribute) else {
                continue
            }
            parsed.pointee.component_id = 1
            list = g_slist_append(list, parsed)
        }
        guard let list else { return }
        remote.hasUsableCandidate = true
        // libnice copies the candidates.
        _ = nice_agent_set_remote_candidates(agent, stream, 1, list)
        g_slist_free_full(list) { data in
            nice_candidate_free(data?.assumingMemoryBound(to: NiceCandidate.self))
        }
    }

    private func passRemoteEnd() {
        _ = nice_agent_peer_candidate_gathering_done(agent, stream)
        // libnice may report FAILED while remote candidates still trickle in. Such a failure becomes final only here.
        if componentHasFailed { fail() }
        guard !remote.hasUsableCandidate, state != .failed else { return }
        // libnice runs no checks without a candidate pair, so it would never report a failure.
        remote.timer = network.schedule(after: Self.remoteCandidateTimeout) { [weak self] in
            guard let self, !self.hasBeenConnected, !self.isClosed else { return }
            if self.tcp == nil { self.emit(.warning("the remote peer sent no usable ICE candidate")) }
            self.fail()
        }
    }

    /// A failure is final if no remote candidate follows, and none is left for TCP.
    private func fail() {
        componentHasFailed = true
        if remote.hasEnd || hasBeenConnected, !(tcp?.isTrying ?? false) { change(to: .failed) }
    }

    // MARK: - ICE-TCP

    private func addTCP(_ candidate: CandidateLine) {
        guard configuration.policy == .all, selectedPair?.isRelayed ?? true else { return }
        if tcp == nil {
            tcp = TCPFallback(
                network: network, headStart: configuration.tcpHeadStart,
                connect: { [weak self] candidate, onEvent in self?.connect(to: candidate, onEvent) },
                onEvent: { [weak self] event in self?.tcpChanged(event) })
        }
        tcp?.add(candidate)
    }

    private func connect(
        to candidate: CandidateLine, _ onEvent: @escaping (TCPConnection.Event) -> Void
    ) -> TCPConnection? {
        guard !isClosed, let credentials = remote.credentials,
            let source = configuration.network.address(towards: candidate.address)
        else { return nil }
        let parameters = TCPConnection.Parameters(
            local: localCredentials, remote: credentials,
            isControlling: gst_decart_nice_is_controlling(agent) != 0,
            onDatagram: { [weak self] in self?.onDatagram?($0) }, onBatchEnd: { [weak self] in self?.onBatchEnd?() })
        return TCPConnection(to: candidate, from: source, parameters, on: network, onEvent: onEvent)
    }

    private func tcpChanged(_ event: TCPFallback.Event) {
        guard !isClosed else { return }
        switch event {
        case .connected(let connection):
            shared.withLock { $0.pair = connection.pair }
            output.withLock {
                $0?.hasPair = true
                $0?.route = nil
            }
            hasBeenConnected = true
            change(to: .connected)
            change(to: .ready)
        case .confirmed(let time): emit(.consentConfirmed(roundTrip: time))
        case .lost: change(to: .failed)
        case .exhausted: if componentHasFailed { fail() }
        }
    }

    // MARK: - libnice signals

    private func connectSignals() {
        // The handlers retain the core until they are disconnected.
        gst_decart_nice_connect(
            agent,
            { _, _, data in ICEAgentCore.from(data)?.libniceGathered() },
            { _, candidate, data in
                guard let candidate else { return }
                ICEAgentCore.from(data)?.gathered(candidate)
            },
            { _, _, _, state, data in ICEAgentCore.from(data)?.componentChanged(to: state) },
            { _, _, _, local, remote, data in
                guard let local, let remote else { return }
                ICEAgentCore.from(data)?.selected(local: local, remote: remote)
            }, Unmanaged.passRetained(self).toOpaque(),
            { data, _ in
                guard let data else { return }
                Unmanaged<ICEAgentCore>.fromOpaque(data).release()
            })
    }

    private func attachReceive() {
        // Unretained: the signal handlers retain the core, and receiving is detached before they are disconnected.
        nice_agent_attach_recv(
            agent, stream, 1, network.context,
            { _, _, _, length, bytes, data in
                guard let bytes, let core = ICEAgentCore.from(data), !core.isClosed else { return }
                core.onDatagram?(UnsafeMutableRawBufferPointer(start: bytes, count: Int(length)))
                core.onBatchEnd?()
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private static func from(_ data: UnsafeMutableRawPointer?) -> ICEAgentCore? {
        data.map { Unmanaged<ICEAgentCore>.fromOpaque($0).takeUnretainedValue() }
    }

    private func componentChanged(to raw: UInt32) {
        guard !isClosed, tcp?.connected == nil else { return }
        switch raw {
        case NICE_COMPONENT_STATE_GATHERING.rawValue: change(to: .gathering)
        case NICE_COMPONENT_STATE_CONNECTING.rawValue:
            componentHasFailed = false
            change(to: .checking)
        case NICE_COMPONENT_STATE_CONNECTED.rawValue, NICE_COMPONENT_STATE_READY.rawValue:
            componentHasFailed = false
            hasBeenConnected = true
            change(to: raw == NICE_COMPONENT_STATE_READY.rawValue ? .ready : .connected)
        case NICE_COMPONENT_STATE_FAILED.rawValue: fail()
        default: break
        }
    }

    private func selected(
        local: UnsafeMutablePointer<NiceCandidate>, remote: UnsafeMutablePointer<NiceCandidate>
    ) {
        guard !isClosed, tcp?.connected == nil else { return }
        let pair = ICECandidatePair(borrowing: local, remote)
        shared.withLock { $0.pair = pair }
        if !pair.isRelayed { tcp?.stop() }
        let descriptor = gst_decart_nice_selected_descriptor(agent, stream)
        let route = DirectRoute(descriptor, to: &remote.pointee.addr)
        output.withLock {
            $0?.hasPair = true
            $0?.route = route
        }
        readMedia(from: descriptor)
    }

    private func readMedia(from descriptor: CInt) {
        network.preconditionOnThread()
        guard descriptor != mediaDescriptor else { return }
        if mediaDescriptor >= 0 { network.setReader(mediaDescriptor, nil) }
        mediaDescriptor = descriptor
        guard descriptor >= 0 else { return }
        network.setReader(descriptor) { [weak self] in self?.readMedia() ?? false }
    }

    /// Reads the SRTP and SRTCP packets that wait in the selected pair's socket, without the cost of libnice's source, and
    /// the responses to our consent checks. The sender's address does not matter, because each of these datagrams is
    /// authenticated. All others are libnice's.
    /// - Returns: false if another datagram is first.
    private func readMedia() -> Bool {
        defer { onBatchEnd?() }
        // One byte more than a datagram may have, so that a longer one is recognised.
        return withUnsafeTemporaryAllocation(byteCount: 2049, alignment: 16) { buffer in
            for _ in 0..<Self.maximumDatagrams {
                guard !isClosed, let onDatagram else { return false }
                let peeked = gst_decart_receive(mediaDescriptor, buffer.baseAddress, 1, 1)
                // An empty socket or an error, which the next poll reports again.
                if peeked < 0 { return gst_decart_would_block() != 0 }
                guard peeked == 1, (128...191).contains(buffer[0]) else {
                    if readResponse() { continue }
                    return false
                }
                let length = gst_decart_receive(mediaDescriptor, buffer.baseAddress, buffer.count, 0)
                guard length > 0 else { return false }
                onDatagram(UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(length, buffer.count)]))
            }
            return true
        }
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

    // MARK: - Closing

    /// Releases the agent in the order that libnice requires, on its own thread: detach receiving, disconnect the
    /// signals, close and wait for completion, remove the stream, unref.
    /// - Parameter last: datagrams to send before.
    func finishClose(sending last: [[UInt8]], onReleased: (@Sendable () -> Void)?) {
        network.preconditionOnThread()
        deliver(last)
        gathering.timer?.cancel()
        remote.timer?.cancel()
        servers?.cancel()
        tcp?.stop()
        readMedia(from: -1)
        nice_agent_attach_recv(agent, stream, 1, network.context, nil, nil)
        // Keeps `self` alive after the handlers have released it, until libnice has closed the agent.
        let keep = Unmanaged.passRetained(self)
        g_signal_handlers_disconnect_matched(
            UnsafeMutableRawPointer(agent), G_SIGNAL_MATCH_DATA, 0, 0, nil, nil,
            Unmanaged.passUnretained(self).toOpaque())
        onEvent = nil
        onDatagram = nil
        onBatchEnd = nil
        remote.earlyCandidates = []
        if let onReleased { Self.notify(onReleased, of: agent) }
        gst_decart_nice_hasten_close(agent)
        nice_agent_close_async(
            agent,
            { _, _, data in
                guard let data else { return }
                let core = Unmanaged<ICEAgentCore>.fromOpaque(data).takeRetainedValue()
                nice_agent_remove_stream(core.agent, core.stream)
                g_object_unref(UnsafeMutableRawPointer(core.agent))
                core.network.descriptorsChange()
                for tunnel in core.tunnels { tunnel.close() }
                core.tunnels = []
            }, keep.toOpaque())
    }

    private static func notify(_ body: @escaping @Sendable () -> Void, of agent: OpaquePointer) {
        final class Box {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        // Notifies when the agent is finalised, and with it its last socket.
        g_object_weak_ref(
            UnsafeMutableRawPointer(agent).assumingMemoryBound(to: GObject.self),
            { data, _ in
                guard let data else { return }
                Unmanaged<Box>.fromOpaque(data).takeRetainedValue().body()
            }, Unmanaged.passRetained(Box(body)).toOpaque())
    }
}
