// One side of a session for the page, over WebRTC: a WebSocket with the messages of the control channel, of which only
// offer, answer and candidates have a meaning. Everything here runs on the connection's thread; media events hop onto it.
import DecartProtocol
import Dispatch
import EventLoopThreads
import Network

// @unchecked: used on the connection's thread only.
final class WatchHandler: WebSocketHandler, @unchecked Sendable {
    private let connection: ClientConnection
    private let admission: WatchAdmission
    private let services: MediaServices
    private var media: (any SessionMedia)?
    private var candidateCount = 0

    private static let maximumCandidateCount = 256
    /// Bytes.
    static let maximumMessageSize = 256 << 10

    init(_ connection: ClientConnection, _ admission: WatchAdmission, _ services: MediaServices) {
        (self.connection, self.admission, self.services) = (connection, admission, services)
    }

    func opened() { admission.viewers.enter(connection, isPage: true) }

    func receive(notice: any Sendable) {
        if notice is SessionEnded || notice is ShutdownNotice { connection.close(code: 1000) }
    }

    func ended() {
        admission.viewers.leave(connection)
        services.stop(media.take())
    }

    // MARK: Messages

    func receive(binary: [UInt8]) { refuse("binary frames are not understood") }

    func receive(text: [UInt8]) {
        let message: ClientMessage
        do {
            message = try ClientMessage(decoding: text, maximumSize: Self.maximumMessageSize)
        } catch {
            return refuse(error.message)
        }
        switch message {
        case .offer(let sdp):
            guard media == nil else { return refuse("there is an offer already") }
            start(sdp)
        case .iceCandidate(let candidate):
            candidateCount += 1
            let size = candidate?.candidate.utf8.count ?? 0
            guard candidateCount <= Self.maximumCandidateCount, size <= 1024 else { return }
            media?.perform(.addCandidate(candidate.flatMap { $0.candidate.isEmpty ? nil : $0 }))
        default:
            refuse("only offer and ice-candidate are understood here")
        }
    }

    private func start(_ offer: String) {
        services.group.enter()
        media = services.engine.makeViewer(of: admission.source, room: nil) {
            [self, thread = connection.thread, log = services.log] event in
            let message: ServerMessage
            switch event {
            case .answered(let sdp, _): message = .answer(sdp: sdp)
            case .localCandidate(let candidate, _): message = .iceCandidate(candidate)
            case .failed(let reason):
                log("page: media failed: \(LogText.clean(reason))")
                message = .error(reason)
            case .offered, .logged, .connected, .streamArrived, .bound, .started: return
            }
            thread.async { [self] in send(message) }
        }
        media?.perform(.receiveOffer(offer))
    }

    // MARK: Outgoing frames

    private func refuse(_ text: String) {
        send(.error(text))
    }

    private func send(_ message: ServerMessage) {
        guard let bytes = try? message.encoded() else { return }
        connection.send(.text, bytes)
    }

    func log(_ text: String) { services.log("page: \(text)") }
}
