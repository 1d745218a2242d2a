// Media of one attempt over a direct peer connection (`transport=webrtc`). It knows the connection; it must not know
// the control channel.
//
// The session calls it on its queue, which may block in GStreamer. Any thread may read the properties and call
// `claims`.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import LiveKitTransport
import RTP
import WebRTCTransport

// @unchecked: the fields belong to the session's queue; `path` protects itself.
final class PeerMediaTransport: ElementMedia, @unchecked Sendable {
    let path: MediaPath
    private var connection: PeerConnection?
    private var desired = DesiredMedia()
    /// Content of the latest offer, answered or not.
    private var offered = DesiredMedia()
    private var isOffering = true
    private var isConnected = false

    init(_ path: MediaPath) { self.path = path }

    deinit { stop() }

    // MARK: Requests

    func start(_ start: MediaStart) {
        do {
            var configuration = path.settings.connection
            configuration.loggers = path.host.loggers.transport
            if case .negotiate(let relays) = start { configuration.iceServers += servers(of: relays) }
            offered = desired
            try configuration.checkRelays()
            (configuration.direction, configuration.audio) = directions
            let connection = try PeerConnection(configuration: configuration) { [weak self] in self?.handle($0) }
            self.connection = connection
            path.start()
            path.add(connection, as: "direct")
            path.onEvent(.offer(sdp: try connection.createOffer()))
        } catch {
            path.fail(error)
        }
    }

    func apply(answer sdp: String) {
        guard let connection else { return }
        let isFirst = connection.negotiatedCodec == nil
        do {
            try connection.setAnswer(sdp)
        } catch {
            guard isFirst || error.code == .changedCertificate else {
                path.warn("The answer to a later offer is unusable and ignored: \(error.message)")
                return rollbackOffer()
            }
            return path.fail(error)
        }
        isOffering = false
        do {
            if isFirst {
                try path.receive(from: connection)
                if !path.settings.isViewer { try path.send(through: connection) }
            }
            try applyNegotiated(connection)
            if offered.audio, connection.audioDirection == nil { path.warn("The service rejected the audio m-line") }
            offerIfDue()
        } catch {
            path.fail(error)
        }
    }

    /// Ignores an offer that cannot be applied; the connection then stays as it is. The session calls this only while
    /// no offer of ours is in flight, but one may have been made just now.
    func apply(offer sdp: String) {
        guard let connection else { return }
        guard !isOffering else { return path.warn("An offer of the service is ignored: our offer is in flight") }
        let answer: String
        do {
            answer = try connection.createAnswer(to: sdp)
        } catch {
            if error.code == .changedCertificate { return path.fail(error) }
            return path.warn("An offer of the service is ignored: \(error.message)")
        }
        do {
            // Settled before the answer leaves, so that the branches exist when the first packet arrives.
            try applyNegotiated(connection)
            path.onEvent(.answer(sdp: answer))
        } catch {
            path.fail(error)
        }
    }

    /// Brings sending and receiving in line with the negotiated directions.
    private func applyNegotiated(_ connection: PeerConnection) throws {
        path.setPublished(desired.video && connection.videoDirection?.sends ?? false)
        try path.updateAudio(isWanted: desired.audio, sender: connection, receiver: connection)
    }

    func rollbackOffer() {
        connection?.rollbackOffer()
        isOffering = false
        offerIfDue()
    }

    func recover() {
        guard let connection, isConnected, !isOffering else { return }
        do {
            let sdp = try connection.createOffer(restartsICE: true, reason: "no media arrive")
            (isOffering, offered) = (true, desired)
            path.onEvent(.offer(sdp: sdp))
        } catch {
            path.warn("ICE could not be restarted: \(error.message)")
        }
    }

    func suspectPath() { connection?.suspectPath() }

    func networkChanged(_ addresses: Set<String>) -> Bool {
        connection?.hasLostItsAddress(among: addresses) ?? false
    }

    func apply(candidate: CandidateMessage?) {
        connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
    }

    func stop() {
        path.count(connections, isLast: true)
        connection?.close()
        path.stopAudio()
        path.stop()
        connection = nil
    }

    private func servers(of relays: [TURNConfig]) -> [ICEServer] {
        relays.flatMap { relay in
            relay.urls.compactMap { url in
                path.settings.connection.serverNamedByPeer(
                    url, username: relay.username, credential: relay.credential?.reveal())
            }
        }
    }

    func publish(_ desired: DesiredMedia) {
        self.desired = desired
        if !desired.audio { path.stopAudio() }
        if !desired.video { path.setPublished(false) }
        offerIfDue()
    }

    /// The service sees that the frames stop; a direct connection has no message for it.
    func setMuted(_ muted: Set<MediaKind>, endsServiceMute: Bool) { path.setMuted(muted) }

    /// Offers the changes since the latest offer, one offer at a time and none before the connection is up.
    private func offerIfDue() {
        guard let connection, isConnected, !isOffering, desired != offered else { return }
        connection.setMedia(video: directions.video, audio: directions.audio)
        do {
            let sdp = try connection.createOffer()
            (offered, isOffering) = (desired, true)
            path.onEvent(.offer(sdp: sdp))
        } catch {
            path.fail(error)
        }
    }

    /// Directions of an offer; nil: no audio.
    private var directions: (video: MediaDirection, audio: MediaDirection?) {
        let sends = !path.settings.isViewer
        return (sends && desired.video ? .sendrecv : .recvonly, desired.audio ? sends ? .sendrecv : .recvonly : nil)
    }

    // MARK: Events

    /// Called on the network thread.
    private func handle(_ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate): path.onEvent(.candidate(CandidateMessage(candidate)))
        case .gatheringComplete: path.onEvent(.candidate(nil))
        case .relaysMissing: path.onEvent(.relaysMissing)
        case .stateChanged(.connected):
            let times = connections.first?.statistics
            path.open()
            path.onEvent(.connected(ice: times?.iceTime, dtls: times?.dtlsTime))
            path.scheduler.async { [weak self] in
                self?.isConnected = true
                self?.offerIfDue()
            }
        case .stateChanged(.failed(.closedByPeer)):
            path.onEvent(.closedByPeer(SessionError(PeerConnectionError.closedByPeer)))
        case .stateChanged(.failed(let error)): path.fail(error)
        case .bitrateTarget(let target): path.apply(target: target)
        case .disconnected: path.onEvent(.pathLost)
        case .reconnected: path.onEvent(.pathRecovered)
        case .iceRestarted(succeeded: false): path.onEvent(.restartFailed)
        case .iceConnected, .iceRestarted, .stateChanged, .codecArrived, .streamArrived:
            break
        }
    }
}
