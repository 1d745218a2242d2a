// A bundled connection to one remote peer behind a small JSEP surface: an ICE transport, the DTLS transport over it, and
// the RTP sender and receiver over both. It must not know the service, its sessions or the encoder. All network work runs
// on the network thread; streaming threads only protect and send packets.
import EventLoopThreads
package import GStreamerKit
package import ICE
import MediaSecurity
import Synchronization
package import RTP

// @unchecked: fields under `MARK: Network thread only` are accessed on the network thread only; the others are constant
// or locked.
package final class PeerConnection: @unchecked Sendable {
    package let bin: Bin
    let configuration: PeerConnectionConfiguration
    private let onEvent: @Sendable (PeerConnectionEvent) -> Void
    private let place: NetworkThreads.Place
    var network: NetworkThread { place.thread }
    let rtp: RTPSessions
    let identity: LocalIdentity
    let ice: ICETransport
    let dtls: DTLSTransport
    let sender: RTPSender
    let receiver: RTPReceiver
    private let videoSent = PacketCounter()
    private let lastStatistics = Mutex(PeerConnectionStatistics())
    package static let statisticsLimit = Duration.milliseconds(200)

    struct NegotiationSlot {
        var value: Negotiation
        var isBusy = false
        var isClosed = false
    }
    let negotiation: Mutex<NegotiationSlot>

    // MARK: Network thread only
    private var state = PeerConnectionState.new

    /// Generates the DTLS certificate and builds the RTP sessions. The ICE agent is created with the first offer or
    /// answer; nothing is sent before that.
    package init(
        configuration: PeerConnectionConfiguration, onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) throws(PeerConnectionError) {
        self.configuration = configuration
        self.onEvent = onEvent
        place = configuration.place ?? NetworkThreads.shared.assign()
        identity = LocalIdentity(msid: configuration.msid, audioMSID: configuration.audioMSID)
        negotiation = Mutex(NegotiationSlot(value: Negotiation(identity: identity, configuration: configuration)))
        rtp = RTPSessions(network: place.thread, pushesVideo: configuration.pushesVideoOnNetworkThread)
        bin = rtp.bin
        ice = ICETransport(configuration, network: place.thread, videoSent: videoSent, onEvent: onEvent)
        dtls = try DTLSTransport(over: ice, network: place.thread, loggers: configuration.loggers)
        sender = RTPSender(
            configuration, over: ice, network: place.thread, rtp: rtp, identity: identity, videoSent: videoSent,
            onEvent: onEvent)
        receiver = RTPReceiver(
            configuration, ice: ice, dtls: dtls, sender: sender, rtp: rtp, ssrc: identity.ssrc, onEvent: onEvent)
        ice.onDatagram = { [weak receiver] in receiver?.receive($0) }
        ice.onBatchEnd = { [weak rtp] in rtp?.flush() }
        ice.onConnected = { [weak dtls] in dtls?.iceConnected() }
        ice.onFailure = { [weak self] in self?.fail($0) }
        ice.onTick = { [weak self] in self?.tick() }
        dtls.onFailure = { [weak self] in self?.fail($0) }
        receiver.onFailure = { [weak self] in self?.fail($0) }
        dtls.onKeys = { [weak self] in self?.secured($0) }
    }

    // MARK: ICE servers and candidates

    /// Adds a remote candidate; nil ends them. Candidates that arrive before the remote description wait for it, in
    /// order; those of an ICE session that is over are dropped.
    package func addRemoteCandidate(_ candidate: ICECandidate?) {
        network.async { [self] in ice.add(candidate) }
    }

    /// Sets the servers of later ICE sessions: those of restarts. With `awaitsServers`, the first call also gives the
    /// ICE session that runs the TURN servers among them.
    package func addServers(_ servers: [ICEServer], policy: ICETransportPolicy) {
        network.async { [self] in ice.addServers(servers, policy: policy) }
    }

    /// Drops each frame whose payload ends with these bytes from now on, video and audio, and counts it in
    /// `RTPSessionStatistics.fillerFrames`: a LiveKit server announces them as `JoinResponse.sif_trailer` and flushes
    /// decoders with such frames. They are no media of the remote peer: no decoder and no encoded output gets them, and they
    /// select neither stream nor codec. Empty: no frame is dropped. Any thread.
    package func setFillerTrailer(_ bytes: [UInt8]) {
        network.async { [self] in receiver.setFiller(FillerTrailer(bytes)) }
    }

    /// Judges the path at once, because the remote peer reports that our media do not arrive: `disconnected` follows if
    /// nothing proves the contrary. Any thread.
    package func suspectPath() {
        network.async { [self] in ice.suspect() }
    }

    // MARK: State (network thread)

    private func secured(_ srtp: SRTPTransform) {
        change(.connected)
        sender.start(srtp)
        receiver.start(srtp)
        tick()
        rtp.video.startWithKeyframe()
    }

    private func tick() {
        guard receiver.hasKeys else { return }
        sender.tick()
        receiver.tick()
    }

    /// Any thread. Queued, so that events follow the call of the owner that causes them.
    func change(_ next: PeerConnectionState) {
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
        ice.stop()
        dtls.stop()
        sender.stop()
        receiver.stop()
        change(.failed(error))
    }

    // MARK: End

    /// Stops sending and receiving at once. Any thread may call it. The owner then sets `bin` to NULL, removes it, and
    /// calls `dismantle()`.
    package func close() {
        sender.stop()
        negotiation.withLock { $0.isClosed = true }
        network.async { [self] in
            dtls.close()
            ice.close()
            receiver.stop()
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

    /// Changes the bitrate range of the video, bit/s. Any thread.
    package func setBitrateRange(_ range: ClosedRange<Int>) {
        network.async { [self] in sender.setBitrateRange(range) }
    }

    /// Sends forged packets, which the remote peer takes for ours: for tests of a hostile peer.
    package func forge(rtp packet: [UInt8]) { sender.forge(rtp: packet) }
    package func forge(audio packet: [UInt8]) { packet.withUnsafeBytes { sender.forge(audio: $0) } }
    package func forge(rtcp compound: [UInt8]) { compound.withUnsafeBytes { sender.send(rtcp: $0, of: .video) } }

    /// Bytes of video SRTP packets sent; readable from any thread.
    package var bytesSent: UInt64 { videoSent.bytes }

    /// True if this host has lost the selected pair's local address; see `ICECandidatePair`.
    package func hasLostItsAddress(among addresses: Set<String>) -> Bool {
        ice.agent?.selectedPair?.hasLostItsAddress(among: addresses) ?? false
    }

    /// Ends a path over TCP, as servers do whose offer to restart ICE follows.
    package func closeTCPPath() { network.async { [self] in ice.closeTCPPath() } }

    /// Any thread. Waits for the network thread up to a limit; then the last known values follow.
    package func statistics(within limit: Duration = PeerConnection.statisticsLimit) -> PeerConnectionStatistics {
        let present = network.sync(within: limit) { [self] in
            var statistics = PeerConnectionStatistics()
            ice.fill(&statistics)
            dtls.fill(&statistics)
            receiver.fill(&statistics)
            sender.fill(&statistics)
            return statistics
        }
        return lastStatistics.withLock { last in
            last = present ?? last
            return last
        }
    }
}
