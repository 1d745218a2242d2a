import GStreamerKit
import WebRTCTransport

/// The implementation to measure.
enum Implementation: String, Sendable, CaseIterable {
    /// Source and payloader alone: the baseline that is subtracted from the others' figures.
    case none
    case ours
    case webrtcbin

    func makeTransport(onFact: @escaping @Sendable (TransportEvent) -> Void) throws -> any Transport {
        switch self {
        case .ours: try DirectTransport(onFact: onFact)
        case .webrtcbin: try WebRTCBinTransport(onFact: onFact)
        case .none: throw BenchError("'none' has no transport")
        }
    }
}

enum TransportEvent: Sendable {
    case candidate(String)
    case iceConnected
    case connected
    case failed(String)
    /// The source pad of the received RTP.
    case receiver(Pad)
}

/// One peer of a call with one video stream; the common interface of both implementations.
protocol Transport: AnyObject, Sendable {
    /// The element to add to a pipeline.
    var element: Element { get }
    /// The payloader's parameters; nil until they are negotiated or chosen.
    var sendParameters: RTPSendParameters? { get }
    /// Caps to force on the payloader's output; nil: none.
    var senderCaps: String? { get }
    /// The sink pad for RTP; available once the parameters are known.
    func sender() -> Pad?
    /// Call before `offer`. An implementation that chooses the parameters itself creates its sender here.
    func prepareOffer() throws
    func offer(_ then: @escaping @Sendable (String) -> Void) throws
    /// Calls `ready`, which must link the sender, before it passes the answer to `then`.
    func answer(_ offer: String, ready: () throws -> Void, then: @escaping @Sendable (String) -> Void) throws
    func accept(answer: String) throws
    func add(candidate: String)
    /// Call before the pipeline goes to NULL.
    func close()
    /// Call after the pipeline has reached NULL.
    func dismantle()
}

/// The product's transport.
// @unchecked: constant, except for the connection, which has its own synchronisation.
final class DirectTransport: Transport, @unchecked Sendable {
    let connection: PeerConnection
    private let onFact: @Sendable (TransportEvent) -> Void

    init(onFact: @escaping @Sendable (TransportEvent) -> Void) throws {
        self.onFact = onFact
        connection = try PeerConnection(configuration: PeerConnectionConfiguration()) { event in
            switch event {
            case .localCandidate(let candidate): onFact(.candidate(candidate.candidate))
            case .iceConnected: onFact(.iceConnected)
            case .stateChanged(.connected): onFact(.connected)
            case .stateChanged(.failed(let error)): onFact(.failed(error.message))
            default: break
            }
        }
    }

    var element: Element { connection.bin }
    var sendParameters: RTPSendParameters? { connection.sendParameters }
    var senderCaps: String? { nil }
    func prepareOffer() throws {}
    func sender() -> Pad? { connection.bin.staticPad("rtp_sink") }

    func offer(_ then: @escaping @Sendable (String) -> Void) throws { then(try connection.createOffer()) }

    func answer(_ offer: String, ready: () throws -> Void, then: @escaping @Sendable (String) -> Void) throws {
        let text = try connection.createAnswer(to: offer)
        announceReceiver()
        try ready()
        then(text)
    }

    func accept(answer: String) throws {
        try connection.setAnswer(answer)
        announceReceiver()
    }

    private func announceReceiver() {
        if let pad = connection.bin.staticPad("rtp_src") { onFact(.receiver(pad)) }
    }

    func add(candidate: String) {
        connection.addRemoteCandidate(ICECandidate(candidate: candidate, sdpMid: nil, sdpMLineIndex: 0))
    }

    func close() { connection.close() }
    func dismantle() { connection.dismantle() }
}
