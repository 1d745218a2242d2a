// One bundled connection to one far side: ICE, DTLS, SRTP and the RTP session behind a small JSEP surface. It knows
// no sessions, no service and no encoder. Everything that belongs to the network runs on the network thread; the
// streaming threads only protect and send.
package import GStreamerKit
import ICE
import MediaSecurity
import Synchronization

// @unchecked: fields marked "network" are touched on the network thread only; the rest is constant or locked.
package final class PeerConnection: @unchecked Sendable {
    package let bin: Bin
    private let configuration: PeerConnectionConfiguration
    private let onEvent: @Sendable (PeerConnectionEvent) -> Void
    private let network = NetworkThread.shared
    private let graph: RTPGraph
    private let certificate: DTLSCertificate
    private let cname: String
    private let ssrc: UInt32
    private let retransmissionSSRC: UInt32
    private let sdpSessionID = UInt64.random(in: 1...UInt64(Int64.max))

    // What streaming threads need to send; set once, cleared by close().
    private struct Outward {
        var agent: ICEAgent?
        var srtp: SRTPTransform?
    }
    private let outward = Mutex(Outward())
    private let counters = Counters()
    private let rateControl: SendRateControl

    /// One offer and its answer, or an answer to each offer of the far side: what a caller may do next.
    private enum Step { case new, offered, settled, offeredMore, complete, answering, answered, closed }
    private struct Negotiated {
        var step = Step.new
        var parameters: RTPSendParameters?
        /// Of the m-line that the transport belongs to.
        var transportMid = "0"
        var transportIndex = 0
    }
    private let negotiated = Mutex(Negotiated())
    /// What the answers hold from the first one on; touched while `answering` only.
    private var answers: Answers?
    /// Of a connection that began with an offer of data channels; touched by the one who negotiates only.
    private var dataChannelTransport: TransportParameters?
    private var addedCodec: VideoCodec?

    // MARK: network
    private var agent: ICEAgent?
    private var dtls: DTLSConnection?
    private var dtlsTimer: NetworkTimer?
    private var rembTimer: NetworkTimer?
    private var rateTimer: NetworkTimer?
    private var pendingCandidates: [ICECandidate?] = []
    private var remoteIsKnown = false
    private var iceIsUp = false
    private var state = PeerConnectionState.new
    private var srtp: SRTPTransform?
    private var estimator: ReceiveBitrateEstimator
    private var remoteSSRC: UInt32?
    private var usesREMB = false
    private var mediaPayloadType = -1
    private var iceStarted: ContinuousClock.Instant?
    private var iceConnectedAt: ContinuousClock.Instant?
    private var connectedAt: ContinuousClock.Instant?
    private var remoteTransport: TransportParameters?
    private var remoteCandidates: [String] = []
    private var remoteEnded = false

    /// Makes the agent and the graph; nothing is sent before an offer or an answer is made.
    package init(
        configuration: PeerConnectionConfiguration, onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) throws(PeerConnectionError) {
        self.configuration = configuration
        self.onEvent = onEvent
        estimator = ReceiveBitrateEstimator(maximum: configuration.maximumReceiveBitrate)
        let number = UInt32.random(in: 1...UInt32.max)
        ssrc = number
        retransmissionSSRC = number == .max ? 1 : number + 1
        rateControl = SendRateControl(
            range: configuration.bitrateRange, start: configuration.startBitrate ?? min(configuration.bitrateRange.upperBound, 1_500_000),
            ssrc: number)
        cname = "decart-\(String(UInt64.random(in: 0...UInt64.max), radix: 36))"
        do { certificate = try DTLSCertificate.generate() } catch {
            throw PeerConnectionError(.dtls, "could not make a certificate: \(error)")
        }
        do { graph = try RTPGraph() } catch { throw PeerConnectionError(.missingElement, error.message) }
        bin = graph.bin
    }

    // MARK: Negotiation

    /// Our offer with one video m-line; gathering starts.
    package func createOffer() throws(PeerConnectionError) -> String {
        try take(.offered, after: [.new])
        let agent = try makeAgent(isControlling: true)
        let video = LocalDescription.Video(
            mid: "0", codec: LocalDescription.offeredCodec(configuration.codec),
            extensions: LocalDescription.offeredExtensions, direction: configuration.direction)
        let description = describe([.video(video)], localTransport(agent, setup: "actpass"))
        try start(agent)
        return description.sdp().text(sessionID: sdpSessionID, version: 2)
    }

    /// An offer of data channels alone, which makes the transport: no channel ever opens. Gathering starts.
    package func createDataChannelOffer() throws(PeerConnectionError) -> String {
        try take(.offered, after: [.new])
        let agent = try makeAgent(isControlling: true)
        let transport = localTransport(agent, setup: "actpass")
        dataChannelTransport = transport
        try start(agent)
        return describe([.application(mid: "0")], transport).sdp().text(sessionID: sdpSessionID, version: 2)
    }

    /// Adds our video to a connection that began with data channels.
    package func createOffer(adding codec: VideoCodec) throws(PeerConnectionError) -> String {
        guard let transport = dataChannelTransport else { throw Self.wrongState }
        try take(.offeredMore, after: [.settled])
        addedCodec = codec
        let video = LocalDescription.Video(
            mid: "1", codec: LocalDescription.offeredCodec(codec), extensions: LocalDescription.offeredExtensions,
            direction: configuration.direction)
        return describe([.application(mid: "0"), .video(video)], transport).sdp().text(sessionID: sdpSessionID, version: 3)
    }

    private func setDataChannelAnswer(_ sdp: String) throws(PeerConnectionError) {
        let codec = addedCodec
        let remote = try RemoteDescription(parsing: sdp, isOffer: false, requiresVideo: codec != nil) { $0 == codec }
        guard let codec else {
            try take(.settled, after: [.offered])
            return try setUp(remote, role: remote.transport.setup == "active" ? .server : .client)
        }
        guard let video = remote.video, video.mediaIndex == 1, video.codec.codec == codec else {
            throw PeerConnectionError(.badDescription, "the answer has other m-lines than the offer")
        }
        try take(.complete, after: [.offeredMore])
        try configure(video)
    }

    /// Takes the far side's answer to our latest offer.
    package func setAnswer(_ sdp: String) throws(PeerConnectionError) {
        guard dataChannelTransport == nil else { return try setDataChannelAnswer(sdp) }
        let offered = configuration.codec
        let remote = try RemoteDescription(parsing: sdp, isOffer: false) { $0 == offered }
        guard let video = remote.video, video.mediaIndex == 0 else {
            throw PeerConnectionError(.badDescription, "the answer has other m-lines than the offer")
        }
        try take(.settled, after: [.offered])
        try configure(video)
        try setUp(remote, role: remote.transport.setup == "active" ? .server : .client)
    }

    /// Takes an offer and gives our answer; the first one starts gathering. m-lines other than one video, and data
    /// channels where they are accepted, are refused.
    ///
    /// Later offers may bring the video or take it away, on the same transport; another video than the first, or other
    /// ICE credentials, are an error, after which the connection is to be made anew.
    /// - Parameter wants: which video may be taken, by its `msid`.
    package func createAnswer(
        to offer: String, wants: (_ msid: String?) -> Bool = { _ in true }
    ) throws(PeerConnectionError) -> String {
        let remote = try RemoteDescription(
            parsing: offer, isOffer: true, requiresVideo: !configuration.acceptsDataChannels,
            onlySending: !configuration.direction.sends, taken: answers?.video?.mid, wants: wants
        ) { $0.isAvailable }
        try take(.answering, after: [.new, .answered])
        let text = try answer(remote)
        try take(.answered, after: [.answering])
        return text
    }

    private func answer(_ remote: RemoteDescription) throws(PeerConnectionError) -> String {
        guard var answers else { return try firstAnswer(remote) }
        guard remote.transport.usernameFragment == answers.remoteUsernameFragment else {
            throw PeerConnectionError(.badDescription, "the far side restarts ICE, which is not done here")
        }
        if let video = remote.video {
            if let known = answers.video {
                guard known.mid == video.mid, known.codec == video.codec.codec else {
                    throw PeerConnectionError(.badDescription, "the far side's video became another one")
                }
            } else {
                try configure(video)
                answers.video = (video.mid, video.codec.codec)
            }
        }
        answers.version &+= 1
        self.answers = answers
        return describe(lines(answering: remote), answers.transport).sdp().text(
            sessionID: sdpSessionID, version: answers.version)
    }

    private func firstAnswer(_ remote: RemoteDescription) throws(PeerConnectionError) -> String {
        let agent = try makeAgent(isControlling: remote.isLite)
        // As answerer we open the handshake (RFC 8842 5.3), unless the offerer insists on doing so.
        let role: DTLSRole = remote.transport.setup == "active" ? .server : .client
        let transport = localTransport(agent, setup: role == .client ? "active" : "passive")
        answers = Answers(
            transport: transport, remoteUsernameFragment: remote.transport.usernameFragment,
            video: remote.video.map { ($0.mid, $0.codec.codec) })
        if let video = remote.video { try configure(video) }
        let description = describe(lines(answering: remote), transport)
        try setUp(remote, role: role)
        try start(agent)
        return description.sdp().text(sessionID: sdpSessionID, version: 2)
    }

    private struct Answers {
        let transport: TransportParameters
        let remoteUsernameFragment: String
        var video: (mid: String, codec: VideoCodec)?
        var version: UInt32 = 2
    }

    private func lines(answering remote: RemoteDescription) -> [LocalDescription.Line] {
        zip(remote.kinds, remote.mids).enumerated().map { index, line in
            if let video = remote.video, video.mediaIndex == index { return .video(localVideo(answering: video)) }
            if line.0 == "application", configuration.acceptsDataChannels { return .application(mid: line.1) }
            return .refused(kind: line.0, mid: line.1)
        }
    }

    private func localVideo(answering remote: RemoteVideo) -> LocalDescription.Video {
        var codec = remote.codec
        codec.feedback.formIntersection(LocalDescription.offeredFeedback)
        if codec.codec == .h264 { codec.formatParameters = codec.codec.formatParameters }
        var extensions = remote.extensions
        if !codec.usesTransportCC { extensions.transportWideCC = nil }
        return LocalDescription.Video(
            mid: remote.mid, codec: codec, extensions: extensions,
            direction: remote.direction.reversed.limited(to: configuration.direction))
    }

    private func describe(_ lines: [LocalDescription.Line], _ transport: TransportParameters) -> LocalDescription {
        LocalDescription(
            lines: lines, transport: transport, cname: cname, msid: configuration.msid ?? "\(cname) \(cname)-video",
            ssrc: ssrc, retransmissionSSRC: retransmissionSSRC)
    }

    /// nil = the far side has no more candidates. Early ones wait for its description, in order.
    package func addRemoteCandidate(_ candidate: ICECandidate?) {
        network.async { [self] in
            // Between the description and the agent's start there is a moment without an agent.
            guard remoteIsKnown, agent != nil else {
                if pendingCandidates.count < 128 { pendingCandidates.append(candidate) }
                return
            }
            apply(candidate)
        }
    }

    /// What the far side accepted; nil before the answer.
    package var sendParameters: RTPSendParameters? { negotiated.withLock(\.parameters) }
    package var negotiatedCodec: VideoCodec? { sendParameters?.codec }

    private func makeAgent(isControlling: Bool) throws(PeerConnectionError) -> ICEAgent {
        let settings = ICEConfiguration(
            servers: configuration.iceServers, policy: configuration.iceTransportPolicy, isControlling: isControlling,
            openTunnel: configuration.openTunnel)
        do {
            return try ICEAgent(
                configuration: settings,
                onEvent: { [weak self] event in self?.handle(event) },
                onDatagram: { [weak self] datagram in self?.receive(datagram) })
        } catch { throw PeerConnectionError(.ice, "could not make the ICE agent: \(error)") }
    }

    private func localTransport(_ agent: ICEAgent, setup: String) -> TransportParameters {
        TransportParameters(
            usernameFragment: agent.localUsernameFragment, password: agent.localPassword,
            fingerprints: [certificate.fingerprint], setup: setup)
    }

    private func take(_ next: Step, after expected: Set<Step>) throws(PeerConnectionError) {
        let taken = negotiated.withLock { negotiated in
            guard expected.contains(negotiated.step) else { return false }
            negotiated.step = next
            return true
        }
        guard taken else { throw Self.wrongState }
    }

    private static let wrongState = PeerConnectionError(
        .wrongState, "a connection makes one offer, or answers only, and nothing after it is closed")

    private func start(_ agent: ICEAgent) throws(PeerConnectionError) {
        let started = network.sync { [self] in
            // close() may have come from another thread: it has not seen this agent.
            guard state != .closed else { return false }
            self.agent = agent
            outward.withLock { $0.agent = agent }
            iceStarted = .now
            if remoteIsKnown { applyPending() }
            return true
        }
        guard started else {
            agent.close()
            throw Self.wrongState
        }
        change(.connecting)
        agent.gatherCandidates()
    }

    /// Makes the RTP session of the one video.
    private func configure(_ remote: RemoteVideo) throws(PeerConnectionError) {
        var ids = remote.extensions
        if !remote.codec.usesTransportCC { ids.transportWideCC = nil }
        let session = RTPSessionParameters(
            codec: remote.codec, extensions: ids, ssrc: ssrc, retransmissionSSRC: retransmissionSSRC,
            latency: configuration.jitterBufferLatency)
        negotiated.withLock {
            $0.parameters = RTPSendParameters(
                codec: remote.codec.codec, payloadType: remote.codec.payloadType, ssrc: ssrc,
                transportWideCCExtension: ids.transportWideCC.map(Int.init))
        }
        let writer = HeaderExtensionWriter(ids: ids, mid: remote.mid)
        do {
            try graph.configure(
                session, onRTP: { [weak self] packet in self?.send(rtp: packet, writer) },
                onRTCP: { [weak self] packet in self?.send(rtcp: packet) })
        } catch { throw PeerConnectionError(.missingElement, error.message) }
        network.async { [self] in
            usesREMB = remote.codec.usesREMB && !remote.codec.usesTransportCC
            mediaPayloadType = remote.codec.payloadType
            // Otherwise it begins with the connection.
            if state == .connected, usesREMB { sendREMB() }
        }
    }

    private func setUp(_ remote: RemoteDescription, role: DTLSRole) throws(PeerConnectionError) {
        negotiated.withLock {
            $0.transportIndex = remote.transportIndex
            $0.transportMid = remote.mids[remote.transportIndex]
        }
        let failure: DTLSError? = network.sync { [self] () -> DTLSError? in
            guard state != .closed else { return nil }
            // An early datagram made a server, for a ClientHello; the answer may want a client after all.
            if dtls?.role != role {
                do throws(DTLSError) {
                    dtls = try DTLSConnection(role: role, certificate: certificate)
                } catch { return error }
            }
            remoteIsKnown = true
            remoteTransport = remote.transport
            remoteCandidates = remote.candidates
            remoteEnded = remote.endOfCandidates
            if let status = dtls?.setRemoteFingerprints(remote.transport.fingerprints) { advance(status) }
            if agent != nil { applyPending() }
            return nil
        }
        if let failure { throw PeerConnectionError(.dtls, "could not start DTLS: \(failure)") }
    }

    private func applyPending() {
        guard let agent, let remote = remoteTransport else { return }
        agent.setRemoteCredentials(usernameFragment: remote.usernameFragment, password: remote.password)
        for candidate in remoteCandidates { agent.addRemoteCandidate(candidate) }
        remoteCandidates.removeAll()
        for candidate in pendingCandidates { apply(candidate) }
        pendingCandidates.removeAll()
        if remoteEnded { agent.endOfRemoteCandidates() }
        startHandshakeIfReady()
    }

    private func apply(_ candidate: ICECandidate?) {
        guard let candidate, !candidate.candidate.isEmpty else {
            agent?.endOfRemoteCandidates()
            return
        }
        // Everything is bundled onto one transport: candidates of other m-lines belong to none.
        let (mid, line) = negotiated.withLock { ($0.transportMid, $0.transportIndex) }
        if let index = candidate.sdpMLineIndex, index != 0, index != line, candidate.sdpMid != mid { return }
        agent?.addRemoteCandidate(candidate.candidate)
    }

    // MARK: Events (network thread)

    private func handle(_ event: ICEEvent) {
        switch event {
        case .localCandidate(let text):
            let (mid, line) = negotiated.withLock { ($0.transportMid, $0.transportIndex) }
            onEvent(.localCandidate(ICECandidate(candidate: text, sdpMid: mid, sdpMLineIndex: line)))
        case .gatheringComplete: onEvent(.gatheringComplete)
        case .warning(let text): onEvent(.warning(text))
        case .stateChanged(.connected), .stateChanged(.ready):
            guard !iceIsUp else { return }
            iceIsUp = true
            iceConnectedAt = .now
            onEvent(.iceConnected)
            startHandshakeIfReady()
        case .stateChanged(.failed):
            fail(PeerConnectionError(.ice, iceIsUp ? "the network path to the far side is dead" : "no network path to the far side was found"))
        case .stateChanged: break
        }
    }

    private func startHandshakeIfReady() {
        guard iceIsUp, remoteIsKnown, let dtls else { return }
        advance(dtls.start())
    }

    private func receive(_ datagram: UnsafeMutableRawBufferPointer) {
        guard let first = datagram.first, datagram.count <= 2048 else { return }
        switch first {
        case 20...63: receiveDTLS(UnsafeRawBufferPointer(datagram))
        case 128...191: receiveSRTP(datagram)
        default: counters.refused.wrappingAdd(1, ordering: .relaxed)
        }
    }

    private func receiveDTLS(_ datagram: UnsafeRawBufferPointer) {
        // A ClientHello may come before the answer that names its fingerprint: keep it for the handshake to judge.
        if dtls == nil, !remoteIsKnown {
            dtls = try? DTLSConnection(role: .server, certificate: certificate)
        }
        guard let dtls else { return }
        advance(dtls.receive(datagram))
    }

    private func advance(_ status: DTLSStatus) {
        flushDTLS()
        switch status {
        case .handshaking: break
        case .established(let keys):
            do {
                let transform = try SRTPTransform(keys: keys)
                srtp = transform
                outward.withLock { $0.srtp = transform }
            } catch {
                fail(PeerConnectionError(.dtls, "could not key SRTP: \(error)"))
                return
            }
            connectedAt = .now
            change(.connected)
            onEvent(.bitrateTarget(rateControl.target))
            watchRate()
            graph.requestKeyFrameFromEncoder()
            // After the state, which changes in the thread's queue: an estimate is for a connection that is up.
            if usesREMB { network.async { [weak self] in self?.sendREMB() } }
        case .failed(let error):
            fail(PeerConnectionError(error.code == .fingerprintMismatch ? .fingerprintMismatch : .dtls, error.description))
        case .closed:
            fail(.closedByPeer)
        }
    }

    private func flushDTLS() {
        guard let dtls else { return }
        while let datagram = dtls.nextOutgoingDatagram() {
            _ = datagram.withUnsafeBytes { agent?.send($0) }
        }
        dtlsTimer?.cancel()
        dtlsTimer = nil
        if let wait = dtls.nextTimeout {
            dtlsTimer = network.schedule(after: wait) { [weak self] in
                guard let self, let dtls = self.dtls else { return }
                self.advance(dtls.handleTimeout())
            }
        }
    }

    private func receiveSRTP(_ datagram: UnsafeMutableRawBufferPointer) {
        guard let srtp else {
            counters.withoutKeys.wrappingAdd(1, ordering: .relaxed)
            return
        }
        guard datagram.count >= 12 else {
            counters.refused.wrappingAdd(1, ordering: .relaxed)
            return
        }
        let isRTCP = (192...223).contains(datagram[1])
        let length =
            isRTCP
            ? srtp.unprotectRTCP(datagram, length: datagram.count) : srtp.unprotectRTP(datagram, length: datagram.count)
        guard let length, length >= (isRTCP ? 8 : 12), length <= datagram.count else {
            counters.refused.wrappingAdd(1, ordering: .relaxed)
            return
        }
        let packet = UnsafeRawBufferPointer(rebasing: datagram[..<length])
        if isRTCP {
            let remoteEstimate = RTCPFeedback.remoteBitrateEstimate(in: packet)
            if let bitrate = remoteEstimate {
                counters.remoteEstimate.store(bitrate, ordering: .relaxed)
                onEvent(.remoteBitrateEstimate(bitrate))
            }
            if let target = rateControl.received(rtcp: packet, remoteEstimate: remoteEstimate, now: MonotonicTime.nanoseconds) {
                onEvent(.bitrateTarget(target))
            }
            graph.received(rtcp: packet)
        } else {
            counters.packetsReceived.wrappingAdd(1, ordering: .relaxed)
            counters.bytesReceived.wrappingAdd(UInt64(length), ordering: .relaxed)
            if Int(packet[1] & 0x7f) == mediaPayloadType {
                remoteSSRC = packet[8..<12].reduce(0) { $0 << 8 | UInt32($1) }
                estimator.packet(sequence: UInt16(packet[2]) << 8 | UInt16(packet[3]))
            }
            graph.received(rtp: packet)
        }
    }

    /// aiortc stays at 500 kbit/s until it hears an estimate.
    private func sendREMB() {
        guard case .connected = state else { return }
        estimator.update()
        if let remoteSSRC {
            let packet = RTCPFeedback.makeREMB(bitrate: estimator.estimate, senderSSRC: ssrc, mediaSSRC: remoteSSRC)
            packet.withUnsafeBytes(send(rtcp:))
        }
        rembTimer = network.schedule(after: .milliseconds(500)) { [weak self] in self?.sendREMB() }
    }

    /// Silence is news for the rate control too.
    private func watchRate() {
        guard srtp != nil else { return }
        if let target = rateControl.tick(now: MonotonicTime.nanoseconds) { onEvent(.bitrateTarget(target)) }
        if let trip = rateControl.roundTrip { graph.paceRetransmission(roundTrip: trip) }
        rateTimer = network.schedule(after: .milliseconds(250)) { [weak self] in self?.watchRate() }
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
        outward.withLock { $0.srtp = nil }
        srtp = nil
        change(.failed(error))
    }

    // MARK: Streaming threads

    private func send(rtp packet: UnsafeRawBufferPointer, _ writer: HeaderExtensionWriter) {
        let (agent, srtp) = outward.withLock { ($0.agent, $0.srtp) }
        let now = MonotonicTime.nanoseconds
        guard let agent, let srtp,
            let (buffer, length) = writer.write(packet, sendTime: now, reserve: SRTPTransform.maximumOverhead)
        else { return }
        rateControl.willSend(
            rtp: UnsafeRawBufferPointer(rebasing: buffer[..<length]), extensionID: writer.transportWideCC, now: now)
        guard let protected = srtp.protectRTP(buffer, length: length) else { return }
        if agent.send(UnsafeRawBufferPointer(rebasing: buffer[..<protected])) {
            counters.packetsSent.wrappingAdd(1, ordering: .relaxed)
            counters.bytesSent.wrappingAdd(UInt64(protected), ordering: .relaxed)
        }
    }

    private func send(rtcp packet: UnsafeRawBufferPointer) {
        let (agent, srtp) = outward.withLock { ($0.agent, $0.srtp) }
        guard let agent, let srtp, packet.count + SRTPTransform.maximumOverhead <= 1500 else { return }
        rateControl.willSend(rtcp: packet, now: MonotonicTime.nanoseconds)
        withUnsafeTemporaryAllocation(byteCount: 1500, alignment: 16) { scratch in
            scratch.copyMemory(from: packet)
            guard let protected = srtp.protectRTCP(scratch, length: packet.count) else { return }
            agent.send(UnsafeRawBufferPointer(rebasing: scratch[..<protected]))
        }
    }

    // MARK: End

    /// Stops sending and receiving at once, from any thread. The owner then takes `bin` to NULL, removes it, and calls
    /// `dismantle()`.
    package func close() {
        outward.withLock { $0.srtp = nil }
        negotiated.withLock { $0.step = .closed }
        network.async { [self] in
            if let dtls, iceIsUp {
                dtls.close()
                while let datagram = dtls.nextOutgoingDatagram() { _ = datagram.withUnsafeBytes { agent?.send($0) } }
            }
            dtlsTimer?.cancel()
            rembTimer?.cancel()
            rateTimer?.cancel()
            dtlsTimer = nil
            rembTimer = nil
            rateTimer = nil
            dtls = nil
            srtp = nil
            agent?.close()
            agent = nil
            outward.withLock { $0.agent = nil }
            if state != .closed {
                state = .closed
                onEvent(.stateChanged(.closed))
            }
        }
        graph.stop()
    }

    /// After `bin` reached NULL.
    package func dismantle() { graph.dismantle() }

    /// Of SRTP packets; any thread.
    package var bytesSent: UInt64 { counters.bytesSent.load(ordering: .relaxed) }

    package func statistics() -> PeerConnectionStatistics {
        var statistics = PeerConnectionStatistics()
        counters.fill(&statistics)
        (statistics.selectedPair, statistics.iceTime, statistics.dtlsTime, statistics.bitrateTarget) = network.sync { [self] in
            let ice: Duration? = iceStarted.flatMap { from in iceConnectedAt.map { $0 - from } }
            let handshake: Duration? = iceConnectedAt.flatMap { from in connectedAt.map { $0 - from } }
            return (agent?.selectedPair, ice, handshake, rateControl.target)
        }
        if let session = graph.sessionStatistics() { statistics.read(session, localSSRC: ssrc) }
        return statistics
    }
}
