// One attempt's media over a direct peer connection (generation 1). It knows the connection; it must not know the
// control channel.
//
// Every method but `traffic` runs on the session's queue, which may block in GStreamer.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import LiveKitTransport
import Synchronization
import WebRTCTransport

// @unchecked: `connection` belongs to the session's queue, the path sees to itself.
final class PeerMediaTransport: ElementMedia, @unchecked Sendable {
    private let path: MediaPath
    private let onEvent: @Sendable (MediaEvent) -> Void
    private var connection: PeerConnection?

    init(path: MediaPath, onEvent: @escaping @Sendable (MediaEvent) -> Void) {
        self.path = path
        self.onEvent = onEvent
    }

    deinit { stop() }

    var traffic: MediaTraffic { path.traffic }
    var statistics: PeerConnectionStatistics? { path.sender?.statistics() }
    func takesOver(_ message: Message) -> Bool { path.takesOver(message) }
    var receivedSize: (width: Int, height: Int)? { path.receivedSize }
    var isPublished: Bool { path.isPublished.load(ordering: .acquiring) }
    var trackSID: String? { nil }

    // MARK: Orders

    func start(_ start: MediaStart) {
        do {
            var configuration = path.settings.connection
            configuration.msid = path.settings.label.msid
            if case .negotiate(let relays) = start { configuration.iceServers += servers(of: relays) }
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
        do {
            try connection.setAnswer(sdp)
            try path.receive(from: connection)
            if !path.settings.onlyWatches { try path.send(through: connection) }
        } catch {
            path.fail(error)
        }
    }

    func apply(candidate: CandidateMessage?) {
        connection?.addRemoteCandidate(candidate.map(ICECandidate.init))
    }

    func stop() {
        connection?.close()
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

    func setAudio(_ isWanted: Bool) {}
    func setVideoPublished(_ isPublished: Bool) {}

    // MARK: Facts

    /// The network thread.
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
        case .stateChanged(.failed(let error)): path.fail(error)
        case .warning(let text): path.host.log(.warning, path.host.element.unowned, text)
        case .bitrateTarget(let target): path.take(target)
        case .iceConnected, .remoteBitrateEstimate, .stateChanged: break
        }
    }
}
