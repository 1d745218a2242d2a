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
import WebRTCTransport

// @unchecked: the fields belong to the session's queue; `path` protects itself.
final class PeerMediaTransport: ElementMedia, @unchecked Sendable {
    private let path: MediaPath
    private let onEvent: @Sendable (MediaEvent) -> Void
    private var connection: PeerConnection?
    private var desired = DesiredMedia()
    /// Content of the latest offer, answered or not.
    private var offered = DesiredMedia()
    private var isOffering = true
    private var isConnected = false
    private var audio = AudioNegotiation()

    init(path: MediaPath, onEvent: @escaping @Sendable (MediaEvent) -> Void) {
        self.path = path
        self.onEvent = onEvent
    }

    deinit { stop() }

    var traffic: MediaTraffic { path.traffic }
    var statistics: PeerConnectionStatistics? { path.sender?.statistics() }
    func claims(_ message: Message) -> Bool { path.claims(message) }
    var receivedSize: (width: Int, height: Int)? { path.receivedSize }
    var isPublished: Bool { path.isPublished }
    var sentLayers: [String] { path.sentLayers }
    var trackSID: String? { nil }

    // MARK: Requests

    func start(_ start: MediaStart) {
        do {
            var configuration = path.settings.connection
            configuration.msid = path.settings.label.msid
            if case .negotiate(let relays) = start { configuration.iceServers += servers(of: relays) }
            offered = desired
            configuration.direction = desired.video ? .sendrecv : .recvonly
            configuration.audio = desired.audio ? .sendrecv : nil
            let connection = try PeerConnection(configuration: configuration) { [weak self] in self?.handle($0) }
            self.connection = connection
            path.start()
            path.add(connection)
            onEvent(.offer(sdp: try connection.createOffer()))
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
            guard isFirst else {
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
        guard !isOffering else { return path.warn("An offer of the service is ignored: an own offer is in flight") }
        let answer: String
        do {
            answer = try connection.createAnswer(to: sdp)
        } catch {
            return path.warn("An offer of the service is ignored: \(error.message)")
        }
        do {
            // Settled before the answer leaves, so that the branches exist when the first packet arrives.
            try applyNegotiated(connection)
            onEvent(.answer(sdp: answer))
        } catch {
            path.fail(error)
        }
    }

    /// Brings sending and receiving in line with the negotiated directions.
    private func applyNegotiated(_ connection: PeerConnection) throws {
        path.setPublished(desired.video && connection.videoDirection?.sends ?? false)
        try audio.update(path, isWanted: desired.audio, sender: connection, receiver: connection)
    }

    func rollbackOffer() {
        connection?.rollbackOffer()
        isOffering = false
        offerIfDue()
    }

    func apply(candidate: CandidateMessage?) {
        connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
    }

    func stop() {
        connection?.close()
        audio.stop(path)
        path.stop()
        connection = nil
    }

    private func servers(of relays: [TURNConfig]) -> [ICEServer] {
        relays.flatMap { relay in
            relay.urls.compactMap { url in
                try? ICEServer(url: url, username: relay.username, credential: relay.credential?.reveal())
            }
        }
    }

    func setAudio(_ isWanted: Bool) {
        desired.audio = isWanted
        if !isWanted { audio.stop(path) }
        offerIfDue()
    }

    func setVideoPublished(_ isPublished: Bool) {
        desired.video = isPublished
        if !isPublished { path.setPublished(false) }
        offerIfDue()
    }

    /// Offers the changes since the latest offer, one offer at a time and none before the connection is up.
    private func offerIfDue() {
        guard let connection, isConnected, !isOffering, desired != offered else { return }
        connection.setMedia(video: desired.video ? .sendrecv : .recvonly, audio: desired.audio ? .sendrecv : nil)
        do {
            let sdp = try connection.createOffer()
            (offered, isOffering) = (desired, true)
            onEvent(.offer(sdp: sdp))
        } catch {
            path.fail(error)
        }
    }

    // MARK: Events

    /// Called on the network thread.
    private func handle(_ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate):
            onEvent(
                .candidate(
                    CandidateMessage(candidate)))
        case .gatheringComplete: onEvent(.candidate(nil))
        case .stateChanged(.connected):
            let times = statistics
            path.open()
            onEvent(.connected(ice: times?.iceTime, dtls: times?.dtlsTime))
            path.perform { [weak self] in
                self?.isConnected = true
                self?.offerIfDue()
            }
        case .stateChanged(.failed(let error)): path.fail(error)
        case .warning(let text):
            // Only the session's queue retains the element; on any other thread it may be gone.
            path.perform { [path] in path.warn(text) }
        case .bitrateTarget(let target): path.take(target)
        case .iceConnected, .remoteBitrateEstimate, .stateChanged, .streamArrived: break
        }
    }
}
