// A bundled connection to one remote peer: ICE, DTLS, SRTP and the RTP sessions behind a small JSEP surface. It must
// not know the service, its sessions or the encoder. All network work runs on the network thread; streaming threads
// only protect and send packets.
package import GStreamerKit
package import ICE
import Logging
import MediaSecurity
import Synchronization

// @unchecked: fields under `MARK: Network thread only` are accessed on the network thread only; the others are constant
// or locked.
package final class PeerConnection: @unchecked Sendable {
    package let bin: Bin
    private let configuration: PeerConnectionConfiguration
    private let onEvent: @Sendable (PeerConnectionEvent) -> Void
    private let place: NetworkThreads.Place
    private var network: NetworkThread { place.thread }
    private let rtp: RTPSessions
    private let certificate: DTLSCertificate
    let identity: LocalIdentity

    // State that streaming threads need for sending. `srtp` is nil before the handshake has finished and after a
    // failure or close().
    private struct Outward {
        var agent: ICEAgent?
        var srtp: SRTPTransform?
        /// nil before video is negotiated.
        var pacer: PacedSender?
    }
    private let outward = Mutex(Outward())
    private let counters = Counters()
    private let audioCounters = Counters()
    private let rateControl: SendRateControl

    struct NegotiationSlot {
        var value: Negotiation
        var isBusy = false
        var isClosed = false
    }
    let negotiation: Mutex<NegotiationSlot>

    // MARK: Network thread only
    private var log: ConnectionLog
    /// The ICE session that carries the packets.
    private var ice: ICESession?
    /// The session of an ICE restart until it has connected.
    private var restart: ICESession?
    /// The previous session after a restart: it receives for a moment, because the remote peer may switch later.
    private var retired: ICESession?
    private var candidates = CandidateRouter()
    /// Servers and policy of the next ICE session.
    private var servers: (list: [ICEServer], policy: ICETransportPolicy)?
    private var dtls: DTLSConnection?
    private var dtlsTimer: NetworkTimer?
    private var handshakeLogTimer: NetworkTimer?
    private var rembTimer: NetworkTimer?
    private var rateTimer: NetworkTimer?
    private var pathTimer: NetworkTimer?
    private var remoteIsKnown = false
    private var iceIsUp = false
    private var state = PeerConnectionState.new
    /// Set at once by `fail`, whereas `state` changes later, in the network thread's queue.
    private var hasFailed = false
    /// There are TURN servers, and none of them gave a relay candidate.
    private var relaysAreMissing = false
    private var srtp: SRTPTransform?
    /// Set when ICE has connected.
    private var path: PathMonitor?
    private var lastSent: UInt64 = 0
    private var estimator: ReceiveBitrateEstimator
    private var remoteSSRC: UInt32?
    private var usesREMB = false
    private var videoTypes = PayloadTypeChoice()
    private var audioTypes = PayloadTypeChoice()
    /// Codecs in which video may arrive, by payload type.
    private var codecs: [Int: VideoCodec] = [:]
    private var demuxer = BundleDemuxer()
    private var sources = InboundSources()
    /// Selects the layer of a received simulcast; nil without simulcast.
    private var layerSelector: SimulcastSelector?
    /// Selects the stream without simulcast.
    private var stream = StreamChoice()
    private var audioStream = StreamChoice()
    /// The m-line of the transport; local candidates are signalled for it.
    private var transportMid = "0"
    private var transportIndex = 0
    private var iceStarted: ContinuousClock.Instant?
    private var iceConnectedAt: ContinuousClock.Instant?
    private var connectedAt: ContinuousClock.Instant?
    private var restarts = 0
    private var restartTime: Duration?

    /// Time for an ICE restart from its offer or answer to a path.
    package static let restartTimeout = Duration.seconds(15)
    private static let retirement = Duration.seconds(2)

    /// Generates the DTLS certificate and builds the RTP sessions. The ICE agent is created with the first offer or
    /// answer; nothing is sent before that.
    package init(
        configuration: PeerConnectionConfiguration, onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) throws(PeerConnectionError) {
        self.configuration = configuration
        self.onEvent = onEvent
        place = configuration.place ?? NetworkThreads.shared.assign()
        log = ConnectionLog(configuration.loggers)
        estimator = ReceiveBitrateEstimator(maximum: configuration.maximumReceiveBitrate)
        // All SSRCs are consecutive; the range leaves room so that they do not wrap.
        let audioNumber = UInt32.random(in: 1...(UInt32.max - LocalIdentity.videoSSRCs))
        let number = audioNumber + 1
        rateControl = SendRateControl(
            range: configuration.bitrateRange,
            start: configuration.firstTarget,
            adapts: configuration.adaptsBitrate, ssrc: number)
        let cname = "decart-\(String(UInt64.random(in: 0...UInt64.max), radix: 36))"
        let name = configuration.msid ?? "\(cname) \(cname)-video"
        identity = LocalIdentity(
            cname: cname, videoName: name,
            audioName: configuration.audioMSID ?? "\(name.prefix { $0 != " " }) \(cname)-audio", ssrc: number,
            rtxSSRC: number + 1, audioSSRC: audioNumber)
        negotiation = Mutex(NegotiationSlot(value: Negotiation(identity: identity, configuration: configuration)))
        do { certificate = try DTLSCertificate.generate() } catch {
            throw PeerConnectionError(.dtls, "the DTLS certificate could not be generated: \(error)")
        }
        rtp = RTPSessions(
            latency: configuration.jitterBufferLatency, network: place.thread,
            pushesVideo: configuration.pushesVideoOnNetworkThread)
        bin = rtp.bin
    }

    // MARK: Negotiation

    /// Adds a remote candidate; nil ends them. Candidates that arrive before the remote description wait for it, in
    /// order; those of an ICE session that is over are dropped.
    package func addRemoteCandidate(_ candidate: ICECandidate?) {
        network.async { [self] in apply(candidate) }
    }

    func makeSession(isControlling: Bool) throws(PeerConnectionError) -> ICESession {
        let settings = ICEConfiguration(
            servers: configuration.iceServers, policy: configuration.iceTransportPolicy, isControlling: isControlling,
            openTunnel: configuration.openTunnel, tunnelsTCP: configuration.tunnelsTCP, network: configuration.network)
        let number = ICESession.numbers.wrappingAdd(1, ordering: .relaxed).newValue
        do {
            let agent = try ICEAgent(
                configuration: settings, network: network,
                onEvent: { [weak self] event in self?.handle(event, of: number) },
                onDatagram: { [weak self] datagram in self?.receive(datagram) },
                onBatchEnd: { [weak self] in self?.rtp.flush() })
            return ICESession(agent: agent, number: number)
        } catch { throw PeerConnectionError(.ice, "the ICE agent could not be created: \(error)") }
    }

    func localTransport(_ agent: ICEAgent, setup: String) -> TransportParameters {
        TransportParameters(
            usernameFragment: agent.localUsernameFragment, password: agent.localPassword,
            fingerprints: [certificate.fingerprint], setup: setup)
    }

    /// Begins the first ICE session, or that of a restart.
    /// - Parameters:
    ///   - remote: the remote description, if it is known.
    ///   - reason: the cause of a restart, for the log.
    func start(
        _ session: ICESession, remote: RemoteDescription? = nil, reason: String? = nil
    ) throws(PeerConnectionError) {
        let started = network.sync { [self] in
            // If close() ran on another thread meanwhile, it did not see this session.
            guard !isOver else { return false }
            if ice == nil {
                ice = session
                outward.withLock { $0.agent = session.agent }
                if !configuration.defersGathering { gather(session) }
            } else {
                begin(restart: session, reason)
            }
            if let remote { set(remote) }
            return true
        }
        guard started else {
            session.close()
            throw Negotiation.wrongState
        }
        change(.connecting)
    }

    /// Starts gathering with exactly these servers. For an offerer with `defersGathering`.
    package func gather(servers: [ICEServer], policy: ICETransportPolicy) {
        network.async { [self] in
            self.servers = (servers, policy)
            if let ice { gather(ice) }
        }
    }

    /// Sets the servers of later ICE sessions: those of restarts.
    package func setServers(_ servers: [ICEServer], policy: ICETransportPolicy) {
        network.async { [self] in self.servers = (servers, policy) }
    }

    private func gather(_ session: ICESession) {
        let (list, policy) = servers ?? (configuration.iceServers, configuration.iceTransportPolicy)
        if iceStarted == nil { iceStarted = .now }
        log.gatheringStarts()
        session.agent.gatherCandidates(servers: list, policy: policy)
    }

    // MARK: ICE restart (network thread)

    private func begin(restart session: ICESession, _ reason: String?) {
        // A restart during a restart replaces it.
        if let restart { end(restart) }
        restart = session
        session.reason = reason
        session.limit = network.schedule(after: Self.restartTimeout) { [weak self] in
            self?.restartFailed(session, "no path within \(Self.restartTimeout.components.seconds) s")
        }
        log.restartBegins(reason)
        gather(session)
    }

    /// Packets move to the session of the restart.
    private func finishRestart(_ session: ICESession) {
        session.limit?.cancel()
        session.limit = nil
        let previous = ice
        (ice, restart) = (session, nil)
        outward.withLock { $0.agent = session.agent }
        if let previous {
            candidates.ended(previous.remoteFragment)
            retire(previous)
        }
        path?.cannotCheck = false
        restarts &+= 1
        restartTime = .now - session.startedAt
        arrived(.consent, now: MonotonicTime.now)
        log.restartEnds(session.agent.selectedPair, after: .now - session.startedAt)
        onEvent(.iceRestarted(succeeded: true))
    }

    private func restartFailed(_ session: ICESession, _ cause: String) {
        guard restart === session else { return }
        end(session)
        restart = nil
        log.restartFails(cause, after: .now - session.startedAt)
        onEvent(.iceRestarted(succeeded: false))
        if ice?.hasFailed ?? false { failPath() }
    }

    // MARK: The path (network thread)

    private func arrived(_ arrival: PathMonitor.Arrival, now: Duration) {
        guard path?.arrived(arrival, now: now) == .reconnected else { return }
        log.pathReturns()
        onEvent(.reconnected)
    }

    private func watchPath() {
        let sent = counters.packetsSent.load(ordering: .relaxed)
        let sends = sent != lastSent
        lastSent = sent
        for verdict in path?.tick(now: MonotonicTime.now, jitter: Double.random(in: 0...1), sends: sends) ?? [] {
            switch verdict {
            case .check: ice?.agent.checkConsent()
            case .disconnected:
                log.pathIsLost()
                onEvent(.disconnected)
            case .reconnected: break
            case .expired:
                ice?.hasFailed = true
                if restart == nil { failPath() }
            }
        }
        guard !isOver else { return }
        pathTimer = network.schedule(after: .milliseconds(250)) { [weak self] in self?.watchPath() }
    }

    /// Ends a restart whose offer is rolled back.
    func abandonRestart(_ cause: String) {
        network.async { [self] in
            if let restart { restartFailed(restart, cause) }
        }
    }

    private func retire(_ session: ICESession) {
        retired?.close()
        retired = session
        session.limit = network.schedule(after: Self.retirement) { [weak self] in
            session.close()
            if let self, self.retired === session { self.retired = nil }
        }
    }

    private func end(_ session: ICESession) {
        candidates.ended(session.remoteFragment)
        session.close()
    }

    /// Configures newly negotiated RTP sessions and lets each send according to its direction.
    func apply(_ negotiation: Negotiation) throws(PeerConnectionError) {
        configuration.loggers.rtp.debug("negotiated \(negotiation.summary)")
        do throws(GStreamerError) {
            if let video = negotiation.video {
                if !rtp.video.isConfigured { try configure(video) }
                if rtp.video.setSending(video.direction.sends), video.direction.sends {
                    rtp.video.startWithKeyframe()
                }
            }
            if let audio = negotiation.audio, rtp.audio == nil { try configure(audio) }
            _ = rtp.audio?.setSending(negotiation.audio?.direction.sends ?? false)
        } catch { throw PeerConnectionError(.missingElement, error.message) }
    }

    private func configure(_ video: NegotiatedVideo) throws(GStreamerError) {
        let writer = HeaderExtensionWriter(
            ids: video.extensions, mid: video.mid, streams: identity.streams(video.sentLayers), count: PacketBatch.limit
        )
        // Used by one thread at a time, which the pacer ensures.
        nonisolated(unsafe) var batch = PacketBatch()
        let pacer = PacedSender(
            bitrate: configuration.firstTarget, network: network,
            send: { [weak self] packet in
                if batch.isFull { self?.flush(&batch) }
                self?.add(rtp: packet, writer, to: &batch)
            }, flush: { [weak self] in self?.flush(&batch) })
        outward.withLock { $0.pacer = pacer }
        let retransmission = video.codec.retransmissionPayloadType
        try rtp.video.configure(
            RTPSessionParameters(video, identity),
            onRTP: { [weak self] forEach in
                // Before the keys nothing can be sent, and nothing waits for them.
                guard self?.outward.withLock({ $0.srtp }) != nil else { return }
                pacer.offer { offer in
                    forEach { packet, isDelta in
                        guard packet.count >= 12 else { return }
                        let isRepeated = Int(packet[1] & 0x7f) == retransmission
                        offer(packet, isRepeated ? .retransmission : isDelta ? .media : .keyframe)
                    }
                }
            }, onRTCP: { [weak self] packet in self?.send(rtcp: packet, of: .video) })
        network.async { [self] in
            demuxer.configure(video)
            if !video.receivedLayers.isEmpty {
                layerSelector = SimulcastSelector(rids: video.receivedLayers, ridExtension: video.extensions.rid)
            }
            usesREMB = video.codec.usesREMB && !video.codec.usesTransportCC
            for codec in [video.codec] + video.alternatives { codecs[codec.payloadType] = codec.codec }
            videoTypes = PayloadTypeChoice(
                expected: video.codec.payloadType, alternatives: video.alternatives.map(\.payloadType))
            // If the handshake has not finished yet, its end starts reports and REMB.
            if srtp != nil { rtp.startReports() }
            if state == .connected, usesREMB { sendREMB() }
        }
    }

    private func configure(_ audio: NegotiatedAudio) throws(GStreamerError) {
        let writer = HeaderExtensionWriter(ids: audio.extensions, mid: audio.mid)
        try rtp.addAudio().configure(
            RTPSessionParameters(audio, identity),
            onRTP: { [weak self] forEach in forEach { packet, _ in self?.send(audio: packet, writer) } },
            onRTCP: { [weak self] packet in self?.send(rtcp: packet, of: .audio) })
        network.async { [self] in
            demuxer.configure(audio)
            audioTypes = PayloadTypeChoice(expected: audio.payloadType)
            if srtp != nil { rtp.startReports() }
        }
    }

    func setUp(_ remote: RemoteDescription, role: DTLSRole) throws(PeerConnectionError) {
        let failure: DTLSError? = network.sync { [self] () -> DTLSError? in
            guard state != .closed else { return nil }
            (transportIndex, transportMid) = (remote.transportIndex, remote.mids[remote.transportIndex])
            // An early ClientHello created a DTLS server (`receiveDTLS`), but the answer may make us the client.
            if dtls?.role != role {
                do throws(DTLSError) {
                    dtls = try DTLSConnection(role: role, certificate: certificate)
                } catch { return error }
            }
            remoteIsKnown = true
            if let status = dtls?.setRemoteFingerprints(remote.transport.fingerprints) { advance(status) }
            return nil
        }
        if let failure { throw PeerConnectionError(.dtls, "DTLS could not be started: \(failure)") }
    }

    /// Applies the transport of an answer: to the first ICE session, or to that of a restart.
    func setRemote(_ remote: RemoteDescription) { network.sync { [self] in set(remote) } }

    private func set(_ remote: RemoteDescription) {
        // A restart may be over already; its answer then changes nothing.
        guard let session = [restart, ice].lazy.compactMap(\.self).first, session.remote == nil else { return }
        session.setRemote(remote.transport)
        for candidate in remote.candidates {
            log.received(remote: candidate)
            session.agent.addRemoteCandidate(candidate)
        }
        for candidate in candidates.takeEarly()
        where candidates.route(candidate, remotes: [session.remoteFragment]) != nil {
            apply(candidate)
        }
        // Candidates of another session than this description's stay unused.
        _ = candidates.takeEarly()
        if remote.endOfCandidates { session.agent.endOfRemoteCandidates() }
        startHandshakeIfReady()
    }

    private func apply(_ candidate: ICECandidate?) {
        let sessions = [restart, ice].compactMap(\.self)
        guard let index = candidates.route(candidate, remotes: sessions.map(\.remoteFragment)) else { return }
        let session = sessions[index]
        guard let candidate, !candidate.candidate.isEmpty else { return session.agent.endOfRemoteCandidates() }
        // All media share one BUNDLE transport: candidates of other m-lines do not apply.
        if let index = candidate.sdpMLineIndex, index != 0, index != transportIndex, candidate.sdpMid != transportMid {
            return
        }
        log.received(remote: candidate.candidate)
        session.agent.addRemoteCandidate(candidate.candidate)
    }

    // MARK: Events and packets (network thread)

    private func handle(_ event: ICEEvent, of number: Int) {
        guard let session = [ice, restart].compactMap(\.self).first(where: { $0.number == number }) else { return }
        switch event {
        case .localCandidate(let text):
            log.gathered(local: text)
            onEvent(
                .localCandidate(
                    ICECandidate(
                        candidate: text, sdpMid: transportMid, sdpMLineIndex: transportIndex,
                        usernameFragment: session.agent.localUsernameFragment)))
        case .gatheringComplete:
            relaysAreMissing = log.gatheringEnded(turnServers: session.agent.counters.turnServers)
            if relaysAreMissing { onEvent(.relaysMissing) }
            onEvent(.gatheringComplete)
        case .warning(let text):
            log.warning(text)
        case .stateChanged(.connected), .stateChanged(.ready):
            if session === restart { finishRestart(session) }
            guard !iceIsUp else { return }
            iceIsUp = true
            iceConnectedAt = .now
            log.iceConnected(session.agent.selectedPair)
            handshakeLogTimer = network.schedule(after: ConnectionLog.handshakeWait) { [weak self] in
                self?.log.checkHandshake()
            }
            path = PathMonitor(now: MonotonicTime.now, consentTimeout: configuration.consentTimeout)
            watchPath()
            onEvent(.iceConnected)
            startHandshakeIfReady()
        case .consentUnavailable:
            if session === ice { path?.cannotCheck = true }
        case .consentConfirmed:
            if session === ice { arrived(.consent, now: MonotonicTime.now) }
        case .stateChanged(.failed):
            // Once connected, `path` judges.
            guard path?.cannotCheck ?? true || session === restart else { return }
            session.hasFailed = true
            if session === restart {
                restartFailed(session, session.agent.localFailure ?? "no answer to the connectivity checks")
            } else if restart == nil {
                failPath(session.agent.localFailure)
            }
        case .stateChanged: break
        }
    }

    /// - Parameter localCause: why this host has no candidate, if that is the cause.
    private func failPath(_ localCause: String? = nil) {
        guard !isOver else { return }
        log.iceFailed()
        let cause =
            if iceIsUp {
                "the network path to the remote peer failed"
            } else if relaysAreMissing {
                "no network path to the remote peer was found; no TURN server gave a relay"
            } else {
                "no network path to the remote peer was found; check that UDP passes, or set turn-servers"
            }
        fail(PeerConnectionError(.ice, localCause ?? cause))
    }

    private func startHandshakeIfReady() {
        guard iceIsUp, remoteIsKnown, !isOver, let dtls else { return }
        advance(dtls.start())
    }

    private func receive(_ datagram: UnsafeMutableRawBufferPointer) {
        guard let first = datagram.first, datagram.count <= 2048 else { return }
        switch first {
        case 20...63: receiveDTLS(UnsafeRawBufferPointer(datagram))
        case 128...191: receiveSRTP(datagram)
        default: counters.discarded.wrappingAdd(1, ordering: .relaxed)
        }
    }

    /// True after a failure or close. DTLS data is ignored then: a flight that was under way must not key SRTP again.
    private var isOver: Bool { hasFailed || state == .closed }

    private func receiveDTLS(_ datagram: UnsafeRawBufferPointer) {
        guard !isOver else { return }
        // A ClientHello may arrive before the answer that carries its fingerprint. A server starts the handshake with
        // it; the fingerprint is checked once it is known.
        if dtls == nil, !remoteIsKnown {
            dtls = try? DTLSConnection(role: .server, certificate: certificate)
        }
        guard let dtls else { return }
        advance(dtls.receive(datagram))
    }

    private func advance(_ status: DTLSStatus) {
        if case .failed(let error) = status {
            if !hasFailed { log.handshakeFailed(error) }
            fail(
                PeerConnectionError(
                    error.code == .fingerprintMismatch ? .fingerprintMismatch : .dtls, error.description))
            // Send the alert after the event: the remote peer closes its signalling channel on the alert, and that must
            // not overtake the reason.
            return network.async { [self] in flushDTLS() }
        }
        flushDTLS()
        switch status {
        case .handshaking, .failed: break
        case .established(let keys):
            do {
                let transform = try SRTPTransform(keys: keys)
                srtp = transform
                outward.withLock { $0.srtp = transform }
            } catch {
                fail(PeerConnectionError(.dtls, "SRTP could not be set up: \(error)"))
                return
            }
            connectedAt = .now
            handshakeLogTimer?.cancel()
            if let dtls { log.established(dtls) }
            change(.connected)
            report(rateControl.target)
            watchRate()
            rtp.startReports()
            rtp.video.startWithKeyframe()
            // Queued, so that it runs after the state change, which is queued too: `sendREMB` requires `.connected`.
            if usesREMB { network.async { [weak self] in self?.sendREMB() } }
        case .closed:
            fail(.closedByPeer)
        }
    }

    private func flushDTLS() {
        guard let dtls else { return }
        while let datagram = dtls.nextOutgoingDatagram() {
            _ = datagram.withUnsafeBytes { ice?.agent.send($0) }
        }
        dtlsTimer?.cancel()
        dtlsTimer = nil
        if let wait = dtls.nextTimeout {
            dtlsTimer = network.schedule(after: wait) { [weak self] in
                guard let self, !self.isOver, let dtls = self.dtls else { return }
                self.advance(dtls.handleTimeout())
            }
        }
    }

    private func receiveSRTP(_ datagram: UnsafeMutableRawBufferPointer) {
        guard let srtp else {
            counters.beforeKeys.wrappingAdd(1, ordering: .relaxed)
            return
        }
        guard datagram.count >= 12 else {
            counters.discarded.wrappingAdd(1, ordering: .relaxed)
            return
        }
        let isRTCP = (192...223).contains(datagram[1])
        let ssrc = UnsafeRawBufferPointer(datagram).bigEndian32(at: isRTCP ? 4 : 8)
        let now = MonotonicTime.now
        guard sources.admits(ssrc, now: now) else {
            counters.discarded.wrappingAdd(1, ordering: .relaxed)
            return
        }
        let length =
            isRTCP
            ? srtp.unprotectRTCP(datagram, length: datagram.count) : srtp.unprotectRTP(datagram, length: datagram.count)
        guard let length, length >= (isRTCP ? 8 : 12), length <= datagram.count else {
            counters.discarded.wrappingAdd(1, ordering: .relaxed)
            return
        }
        take(ssrc, now)
        arrived(isRTCP ? .feedback : .media, now: now)
        log.arrived(isRTP: !isRTCP, now: now)
        let packet = UnsafeRawBufferPointer(rebasing: datagram[..<length])
        configuration.loggers.rtp.trace("received \(isRTCP ? "RTCP" : "RTP"), SSRC \(ssrc), \(length) bytes")
        if isRTCP {
            let remoteEstimate = RTCPFeedback.remoteBitrateEstimate(in: packet)
            if let bitrate = remoteEstimate {
                counters.remoteEstimate.store(bitrate, ordering: .relaxed)
                onEvent(.remoteBitrateEstimate(bitrate))
            }
            if let target = rateControl.received(
                rtcp: packet, remoteEstimate: remoteEstimate, now: MonotonicTime.nanoseconds)
            {
                report(target)
            }
            if admits(reportersOf: packet, now) { rtp.received(rtcp: packet, now: now) }
        } else {
            receive(rtp: packet, now)
        }
    }

    private func take(_ ssrc: UInt32, _ now: Duration) {
        guard let replaced = sources.take(ssrc, now: now) else { return }
        srtp?.forgetInbound(replaced)
        for kind in MediaKind.allCases { rtp[kind]?.forget(replaced) }
    }

    /// Returns false if the sender of an SR or RR in the compound packet is not admitted. Each needs a place because
    /// the RTP session keeps its state, and a compound packet has room for 180 reports.
    private func admits(reportersOf compound: UnsafeRawBufferPointer, _ now: Duration) -> Bool {
        var isAdmitted = true
        RTCPCompound.forEachPacket(in: compound) { packet in
            guard packet.type == 200 || packet.type == 201, packet.body.count >= 4 else { return }
            let ssrc = packet.body.bigEndian32(at: 0)
            isAdmitted = isAdmitted && sources.admits(ssrc, now: now)
            if isAdmitted { take(ssrc, now) }
        }
        return isAdmitted
    }

    private func receive(rtp packet: UnsafeRawBufferPointer, _ now: Duration) {
        let kind = demuxer.kind(ofRTP: packet)
        (kind == .video ? counters : audioCounters).received(packet.count)
        let (type, ssrc) = (Int(packet[1] & 0x7f), packet.bigEndian32(at: 8))
        guard kind == .video else {
            if audioTypes.take(type, now: now) != .other, audioStream.take(ssrc, now: now) { rtp.select(ssrc, .audio) }
            rtp.audio?.received(rtp: packet, activeType: audioTypes.active, now: now)
            return
        }
        let verdict = videoTypes.take(type, now: now)
        if verdict == .changed, let codec = codecs[type] {
            onEvent(.codecArrived(codec))
            // The packets before a later change were dropped, its keyframe too; of the first packet, no stream is shown yet.
            rtp.video.requestKeyframe()
        }
        if verdict != .other {
            if let update = layerSelector?.receive(rtp: packet, now: now) {
                if let ssrc = update.activeSSRC { rtp.select(ssrc, .video) }
                if let rid = update.arrived { onEvent(.streamArrived(rid: rid)) }
            } else if layerSelector == nil, stream.take(ssrc, now: now) {
                rtp.select(ssrc, .video)
            }
            if ssrc == (layerSelector == nil ? stream.activeSSRC : layerSelector?.activeSSRC) {
                remoteSSRC = ssrc
                estimator.packet(sequence: packet.bigEndian16(at: 2))
            }
        }
        rtp.video.received(rtp: packet, activeType: videoTypes.active, now: now)
    }

    /// Sends REMB every 500 ms. aiortc stays at 500 kbit/s until it receives an estimate.
    private func sendREMB() {
        guard case .connected = state else { return }
        estimator.update()
        if let remoteSSRC {
            let packet = RTCPFeedback.makeREMB(
                bitrate: estimator.estimate, senderSSRC: identity.ssrc, mediaSSRC: remoteSSRC)
            packet.withUnsafeBytes { send(rtcp: $0, of: .video) }
        }
        rembTimer = network.schedule(after: .milliseconds(500)) { [weak self] in self?.sendREMB() }
    }

    /// Ticks the rate control every 250 ms, because missing feedback lowers the target too.
    private func watchRate() {
        guard srtp != nil else { return }
        if let target = rateControl.tick(now: MonotonicTime.nanoseconds) { report(target) }
        log.checkSilence(now: MonotonicTime.now)
        if let report = rateControl.lastReport { log.checkLoss(report, now: MonotonicTime.now) }
        rtp.video.paceRetransmission(roundTrip: rateControl.roundTrip, bitrate: rateControl.target.target)
        rateTimer = network.schedule(after: .milliseconds(250)) { [weak self] in self?.watchRate() }
    }

    private func report(_ target: BitrateTarget) {
        log.changed(target)
        outward.withLock(\.pacer)?.pace(bitrate: target.target)
        onEvent(.bitrateTarget(target))
    }

    private func change(_ next: PeerConnectionState) {
        network.async { [self] in
            switch (state, next) {
            case (.closed, _), (.failed, .connecting), (.failed, .connected), (.connected, .connecting): return
            default: break
            }
            guard state != next else { return }
            state = next
            onEvent(.stateChanged(next))
        }
    }

    private func fail(_ error: PeerConnectionError) {
        hasFailed = true
        stopSending()
        srtp = nil
        change(.failed(error))
    }

    /// Any thread.
    private func stopSending() {
        let pacer = outward.withLock { outward in
            outward.srtp = nil
            return outward.pacer
        }
        pacer?.stop()
    }

    // MARK: Streaming threads

    /// Also called on the network thread, see `PacedSender`.
    private func add(
        rtp packet: UnsafeRawBufferPointer, _ writer: HeaderExtensionWriter, to batch: inout PacketBatch
    ) {
        let now = MonotonicTime.nanoseconds
        guard let srtp = outward.withLock({ $0.srtp }),
            let (buffer, length) = writer.write(packet, sendTime: now, reserve: SRTPTransform.maximumOverhead)
        else { return }
        rateControl.willSend(
            rtp: length, sequence: writer.hasTransportSequence ? writer.transportSequence : nil, now: now)
        guard let protected = srtp.protectRTP(buffer, length: length) else { return }
        batch.append(UnsafeRawBufferPointer(rebasing: buffer[..<protected]))
        writer.keep()
    }

    private func flush(_ batch: inout PacketBatch) {
        let agent = outward.withLock { $0.agent }
        batch.take { packets in
            configuration.loggers.rtp.trace("sends \(packets.count) RTP packets")
            agent?.send(packets) { counters.sent(packets[$0].count) }
        }
    }

    /// Audio takes no part in congestion control: its bitrate is small and never adapted.
    private func send(audio packet: UnsafeRawBufferPointer, _ writer: HeaderExtensionWriter) {
        let (agent, srtp) = outward.withLock { ($0.agent, $0.srtp) }
        guard let agent, let srtp,
            let (buffer, length) = writer.write(packet, sendTime: 0, reserve: SRTPTransform.maximumOverhead)
        else { return }
        guard let protected = srtp.protectRTP(buffer, length: length) else { return }
        configuration.loggers.rtp.trace("sends RTP, \(protected) bytes")
        if agent.send(UnsafeRawBufferPointer(rebasing: buffer[..<protected])) { audioCounters.sent(protected) }
    }

    private func send(rtcp packet: UnsafeRawBufferPointer, of kind: MediaKind) {
        let (agent, srtp) = outward.withLock { ($0.agent, $0.srtp) }
        guard let agent, let srtp, packet.count + SRTPTransform.maximumOverhead <= 1500 else { return }
        if kind == .video { rateControl.willSend(rtcp: packet, now: MonotonicTime.nanoseconds) }
        withUnsafeTemporaryAllocation(byteCount: 1500, alignment: 16) { scratch in
            scratch.copyMemory(from: packet)
            guard let protected = srtp.protectRTCP(scratch, length: packet.count) else { return }
            agent.send(UnsafeRawBufferPointer(rebasing: scratch[..<protected]))
        }
    }

    // MARK: End

    /// Stops sending and receiving at once. Any thread may call it. The owner then sets `bin` to NULL, removes it, and
    /// calls `dismantle()`.
    package func close() {
        stopSending()
        negotiation.withLock { $0.isClosed = true }
        network.async { [self] in
            if let dtls, iceIsUp {
                dtls.close()
                while let datagram = dtls.nextOutgoingDatagram() {
                    _ = datagram.withUnsafeBytes { ice?.agent.send($0) }
                }
            }
            if state != .closed, !hasFailed { log.closes() }
            dtlsTimer?.cancel()
            handshakeLogTimer?.cancel()
            rembTimer?.cancel()
            rateTimer?.cancel()
            pathTimer?.cancel()
            dtlsTimer = nil
            handshakeLogTimer = nil
            rembTimer = nil
            rateTimer = nil
            pathTimer = nil
            dtls = nil
            srtp = nil
            for session in [ice, restart, retired] { session?.close() }
            (ice, restart, retired) = (nil, nil, nil)
            outward.withLock { $0.agent = nil }
            if state != .closed {
                state = .closed
                onEvent(.stateChanged(.closed))
            }
        }
        rtp.stop()
    }

    /// Call after `bin` has reached NULL.
    package func dismantle() { rtp.dismantle() }

    /// Sends fewer RTCP reports while no media of this kind are sent. Any thread; call it again after a description
    /// that adds the kind.
    package func setReports(of kind: MediaKind, areReduced: Bool) {
        network.async { [self] in rtp[kind]?.setReports(areReduced: areReduced) }
    }

    /// Sends forged packets, which the remote peer takes for ours: for tests of a hostile peer.
    package func forge(rtp packet: [UInt8]) {
        let pacer = outward.withLock(\.pacer)
        packet.withUnsafeBytes { bytes in pacer?.offer { $0(bytes, .media) } }
    }
    package func forge(rtcp compound: [UInt8]) { compound.withUnsafeBytes { send(rtcp: $0, of: .video) } }

    /// Bytes of video SRTP packets sent; readable from any thread.
    package var bytesSent: UInt64 { counters.bytesSent.load(ordering: .relaxed) }

    /// True if this host has lost the selected pair's local address; see `ICECandidatePair`.
    package func hasLostItsAddress(among addresses: Set<String>) -> Bool {
        outward.withLock(\.agent)?.selectedPair?.hasLostItsAddress(among: addresses) ?? false
    }

    package func statistics() -> PeerConnectionStatistics {
        var (statistics, report) = network.sync { [self] in
            var statistics = PeerConnectionStatistics()
            statistics.selectedPair = ice?.agent.selectedPair
            (statistics.iceRestarts, statistics.iceRestartTime) = (restarts, restartTime)
            statistics.iceTime = iceStarted.flatMap { from in iceConnectedAt.map { $0 - from } }
            statistics.dtlsTime = iceConnectedAt.flatMap { from in connectedAt.map { $0 - from } }
            statistics.bitrateTarget = rateControl.target
            statistics.receivedLayers = layerSelector?.packets ?? [:]
            statistics.dtls = dtls?.parameters
            statistics.roundTripTime = rateControl.lastRoundTrip.map { .microseconds($0) }
            statistics.read(rtp.video.currentFigures)
            if let session = rtp.audio { statistics.audio = audioCounters.audio(session.currentFigures) }
            return (statistics, rateControl.lastReport)
        }
        counters.fill(&statistics)
        if let delays = outward.withLock(\.pacer)?.delays {
            (statistics.totalSendDelay, statistics.keyframeSendDelay) = (delays.total, delays.keyframe)
        }
        statistics.maximumBitrate = configuration.bitrateRange.upperBound
        statistics.fractionLost = report.map { Double($0.fractionLost) / 256 }
        statistics.remotePacketsLost = report?.packetsLost
        return statistics
    }
}
