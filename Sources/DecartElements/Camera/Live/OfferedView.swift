// A live view by WebRTC: the element offers, and the camera's service answers.
import GStreamerKit
import Log
import MediaPipeline
import WebRTCTransport

// @unchecked: the fields belong to the camera's queue.
final class OfferedView: LiveView, @unchecked Sendable {
    let number: Int
    private let host: LiveCamera.Host
    private let onEvent: @Sendable (LiveViewMachine.Event) -> Void
    private let exchange: any OfferExchange
    private let redact: @Sendable (String) -> String
    private let connection: CameraConnection
    private let offer: OfferText
    /// Gathered and not handed over.
    private var candidates: [String] = []
    private var isComplete = false
    private var isRequested = false
    /// Hands later candidates over together.
    private var isAdding = false
    private var isClosed = false

    // @unchecked: written once, before the connection has gathered anything that the queue handles.
    private final class Own: @unchecked Sendable {
        weak var view: OfferedView?
    }

    /// - Parameters:
    ///   - redacting: takes secrets out of a text that the camera may have written.
    ///   - onEvent: called on any thread.
    init(
        _ configuration: PeerConnectionConfiguration, number: Int, in bin: Bin, _ joints: CameraReceivers.Joints,
        decodes: Bool, talkback: AudioTrack?, exchange: any OfferExchange,
        redacting: @escaping @Sendable (String) -> String, logger: Logger, host: LiveCamera.Host,
        onEvent: @escaping @Sendable (LiveViewMachine.Event) -> Void
    ) throws {
        (self.number, self.exchange, self.host, self.onEvent) = (number, exchange, host, onEvent)
        redact = redacting
        let own = Own()
        connection = try CameraConnection(
            configuration, number: number, in: bin, joints, decodes: decodes, talkback: talkback, logger: logger,
            perform: { [host] in host.perform(nil, $0) }
        ) { [host] event in
            host.perform(nil) { own.view?.handle(event) }
        }
        do {
            offer = try connection.makeOffer()
        } catch {
            connection.close()
            throw error
        }
        own.view = self
    }

    func request() {
        let gathered = candidates
        (candidates, isRequested) = ([], true)
        exchange.start(offer, candidates: gathered, isComplete: isComplete)
    }

    func connect(_ grant: LiveViewGrant) throws { try connection.apply(answer: grant.answer) }
    func extend() { exchange.extend() }
    func add(candidate: String?) { connection.add(candidate: candidate) }

    func close() {
        isClosed = true
        connection.close()
        exchange.end()
    }

    func failure(_ error: Message) -> LiveViewFailure? {
        guard connection.posted(error) else { return nil }
        return LiveViewFailure(reason: redacting(error.problem?.text ?? LiveCamera.noText))
    }

    func redacting(_ text: String) -> String { redact(text) }

    private func handle(_ event: PeerConnectionEvent) {
        guard !isClosed else { return }
        switch event {
        case .localCandidate(let candidate):
            candidates.append(candidate.candidate)
            addLater()
        case .gatheringComplete:
            isComplete = true
            // The offer that is handed over now is complete.
            if isRequested { addLater() } else { onEvent(.gathered(view: number)) }
        case .codecArrived(let codec):
            do { try connection.change(to: codec) } catch {
                onEvent(.failed(view: number, LiveViewFailure(reason: redacting(LiveCamera.text(error)))))
            }
        case .stateChanged(.failed(let error)):
            let isClose = error == .closedByPeer
            onEvent(.failed(view: number, LiveViewFailure(reason: redacting(error.message), isClose: isClose)))
        case .stateChanged, .iceConnected, .iceRestarted, .disconnected, .reconnected, .bitrateTarget, .streamArrived,
            .relaysMissing:
            break
        }
    }

    /// Hands candidates over that came after the offer, those of a moment together.
    private func addLater() {
        guard isRequested, !isAdding else { return }
        isAdding = true
        host.perform(.milliseconds(50)) { [weak self] in
            guard let self, !self.isClosed else { return }
            let gathered = self.candidates
            (self.candidates, self.isAdding) = ([], false)
            self.exchange.add(self.offer, candidates: gathered, isComplete: self.isComplete)
        }
    }
}
