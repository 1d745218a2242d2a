import GStreamerKit
import WebRTCTransport

/// Who does the work.
enum Contender: String, Sendable, CaseIterable {
    /// Source and payloader alone: what the others' figures are net of.
    case none
    case ours
    case webrtcbin

    func makeTransport(onFact: @escaping @Sendable (TransportFact) -> Void) throws -> any Transport {
        switch self {
        case .ours: try DirectTransport(onFact: onFact)
        case .webrtcbin: try WebRTCBinTransport(onFact: onFact)
        case .none: throw BenchError("'none' has no transport")
        }
    }
}

enum TransportFact: Sendable {
    case candidate(String)
    case iceConnected
    case connected
    case failed(String)
    /// RTP comes out of this pad.
    case receiver(Pad)
}

/// One side of a call with one video stream, the same to ask for from both contenders.
protocol Transport: AnyObject, Sendable {
    /// To be added to a pipeline.
    var element: Element { get }
    /// What a payloader needs; nil until it is known.
    var sendParameters: RTPSendParameters? { get }
    /// What the sender's caps must be made to say; nil = as the payloader has them.
    var senderCaps: String? { get }
    /// Where RTP goes in, once the parameters are known.
    func sender() -> Pad?
    /// Before `offer`: whoever can know the parameters now makes its sender.
    func prepareOffer() throws
    func offer(_ then: @escaping @Sendable (String) -> Void) throws
    /// The sender must be linked in `ready`, which comes before the answer is made.
    func answer(_ offer: String, ready: () throws -> Void, then: @escaping @Sendable (String) -> Void) throws
    func accept(answer: String) throws
    func add(candidate: String)
    /// Before the pipeline goes to NULL.
    func close()
    /// After it.
    func dismantle()
}

/// The product's transport.
// @unchecked: constant but for the connection's own state.
final class DirectTransport: Transport, @unchecked Sendable {
    let connection: PeerConnection
    private let onFact: @Sendable (TransportFact) -> Void

    init(onFact: @escaping @Sendable (TransportFact) -> Void) throws {
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
