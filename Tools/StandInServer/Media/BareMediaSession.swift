// Media with faults below RTP: ICE works normally, then DTLS or SRTP misbehaves. There is no pipeline and no codec. All
// mutable state belongs to the network thread.
import DecartProtocol
import EventLoopThreads
import ICE
import MediaSecurity

// @unchecked: mutable fields are touched on the network thread only.
final class BareMediaSession: SessionMedia, @unchecked Sendable {
    enum Deed: Equatable {
        case dtls(FaultKind.Handshake)
        /// Echoes each packet of the client this many times.
        case replay(Int)
    }

    private let deed: Deed
    private let iceNetwork: ICENetwork
    private let painter: FramePainter
    private let onEvent: @Sendable (MediaSessionEvent) -> Void
    private let network = NetworkThread.shared
    private let ssrc = UInt32.random(in: 1...UInt32.max)

    // MARK: State (network thread)
    private var agent: ICEAgent?
    private var offer: BareOffer?
    private var certificate: DTLSCertificate?
    private var dtls: DTLSConnection?
    private var srtp: SRTPTransform?
    private var timer: NetworkTimer?
    private var isUp = false
    private var isOver = false

    init(
        deed: Deed, network: ICENetwork, painter: FramePainter, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) {
        (self.deed, iceNetwork, self.painter, self.onEvent) = (deed, network, painter, onEvent)
    }

    func perform(_ request: MediaRequest) {
        network.async { [self] in
            switch request {
            case .receiveOffer(let sdp, _): receive(offer: sdp)
            case .addCandidate(let candidate?, _): agent?.addRemoteCandidate(candidate.candidate)
            case .addCandidate(nil, _): agent?.endOfRemoteCandidates()
            case .receiveAnswer, .restart, .offer, .restartICE, .moveVideo, .changeCodec, .requestKeyframe, .close:
                break
            }
        }
    }

    /// Takes the first offer: renegotiation and restarts do not apply to faults below RTP.
    private func receive(offer text: String) {
        guard offer == nil, !isOver else { return }
        guard let offer = BareOffer(text) else { return fail("this fault wants an offer that begins with video") }
        do {
            let certificate = try DTLSCertificate.generate()
            let agent = try ICEAgent(
                configuration: ICEConfiguration(isControlling: false, network: iceNetwork),
                onEvent: { [weak self] event in self?.handle(event) },
                onDatagram: { [weak self] datagram in self?.receive(datagram) })
            (self.offer, self.agent, self.certificate) = (offer, agent, certificate)
            onEvent(
                .answered(
                    sdp: offer.answer(
                        usernameFragment: agent.localUsernameFragment, password: agent.localPassword,
                        fingerprint: certificate.fingerprint.sdpValue)))
            agent.gatherCandidates()
            agent.setRemoteCredentials(usernameFragment: offer.usernameFragment, password: offer.password)
            for candidate in offer.candidates { agent.addRemoteCandidate(candidate) }
        } catch {
            fail("the fault's media could not start: \(error)")
        }
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        network.async { [self] in
            isOver = true
            timer?.cancel()
            dtls = nil
            srtp = nil
            agent?.close()
            agent = nil
            completion()
        }
    }

    private func fail(_ reason: String) {
        guard !isOver else { return }
        isOver = true
        onEvent(.failed(reason))
    }

    // MARK: ICE

    private func handle(_ event: ICEEvent) {
        guard !isOver else { return }
        switch event {
        case .localCandidate(let text):
            onEvent(.localCandidate(CandidateMessage(candidate: text, sdpMid: offer?.mid, sdpMLineIndex: 0)))
        case .gatheringComplete:
            onEvent(.localCandidate(nil))
        case .stateChanged(.connected), .stateChanged(.ready):
            guard !isUp else { return }
            isUp = true
            begin()
        case .stateChanged(.failed):
            fail("the network path to the client is dead")
        case .stateChanged, .consentConfirmed, .consentUnavailable, .warning:
            break
        }
    }

    private func begin() {
        switch deed {
        case .dtls(.silent): break
        case .dtls(.flood): flood(rounds: 500)
        case .dtls(.oldVersion): repeatOldHello(times: 30)
        case .replay: handshake()
        }
    }

    private func send(_ datagram: [UInt8]) {
        _ = datagram.withUnsafeBytes { agent?.send($0) }
    }

    // MARK: DTLS

    private func flood(rounds: Int) {
        guard rounds > 0, !isOver else { return }
        for index in 0..<100 { send(HostileRecords.all[index % HostileRecords.all.count]) }
        timer = network.schedule(after: .milliseconds(10)) { [weak self] in self?.flood(rounds: rounds - 1) }
    }

    private func repeatOldHello(times: Int) {
        guard times > 0, !isOver else { return }
        send(HostileRecords.oldClientHello)
        timer = network.schedule(after: .seconds(1)) { [weak self] in self?.repeatOldHello(times: times - 1) }
    }

    private func handshake() {
        guard let certificate, let offer, let connection = try? DTLSConnection(role: .client, certificate: certificate)
        else { return fail("the fault's DTLS could not start") }
        dtls = connection
        advance(connection.setRemoteFingerprints(offer.fingerprints))
        advance(connection.start())
    }

    private func advance(_ status: DTLSStatus) {
        while let datagram = dtls?.nextOutgoingDatagram() { send(datagram) }
        timer?.cancel()
        if let wait = dtls?.nextTimeout {
            timer = network.schedule(after: wait) { [weak self] in
                guard let self, let dtls = self.dtls else { return }
                self.advance(dtls.handleTimeout())
            }
        }
        switch status {
        case .handshaking: break
        case .established(let keys): srtp = try? SRTPTransform(keys: keys)
        case .failed(let error): fail("DTLS failed: \(error)")
        case .closed: fail("the client closed the connection")
        }
    }

    // MARK: Packets

    private func receive(_ datagram: UnsafeMutableRawBufferPointer) {
        guard !isOver, let first = datagram.first else { return }
        switch first {
        case 20...63:
            if let dtls { advance(dtls.receive(UnsafeRawBufferPointer(datagram))) }
        case 128...191:
            if case .replay(let count) = deed { echo(datagram, count) }
        default:
            break
        }
    }

    /// Sends copies with the same packet index, of which a receiver drops all but one (RFC 3711 §3.3.2).
    private func echo(_ datagram: UnsafeMutableRawBufferPointer, _ count: Int) {
        guard let srtp, let offer, datagram.count >= 12, !(192...223).contains(datagram[1]),
            let length = srtp.unprotectRTP(datagram, length: datagram.count), length >= 12,
            Int(datagram[1] & 0x7f) == offer.payloadType
        else { return }
        var packet = [UInt8](datagram[..<min(length, datagram.count)])
        for index in 0..<4 { packet[8 + index] = UInt8(truncatingIfNeeded: ssrc >> (24 - 8 * UInt32(index))) }
        let plain = packet.count
        packet += [UInt8](repeating: 0, count: SRTPTransform.maximumOverhead)
        guard let protected = packet.withUnsafeMutableBytes({ srtp.protectRTP($0, length: plain) }) else { return }
        let datagram = Array(packet[..<min(protected, packet.count)])
        for _ in 0..<count {
            send(datagram)
            painter.noteSent()
        }
    }
}
