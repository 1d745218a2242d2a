// One side of a session for the page, over WebRTC: a WebSocket with the messages of the control channel, of which only
// offer, answer and candidates have a meaning. Everything here runs on the event loop; media events hop onto it.
import DecartProtocol
import Dispatch
import NIOCore
import NIOWebSocket

final class WatchHandler: WebSocketHandler {
    private let admission: WatchAdmission
    private let services: MediaServices
    private var media: (any SessionMedia)?
    private var candidateCount = 0
    var isClosing = false

    private static let maximumCandidateCount = 256
    /// Bytes.
    static let maximumMessageSize = 256 << 10

    init(_ admission: WatchAdmission, _ services: MediaServices) {
        (self.admission, self.services) = (admission, services)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        admission.viewers.enter(context.channel, isPage: true)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is SessionEnded || event is ShutdownNotice { return close(.normalClosure, context) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        admission.viewers.leave(context.channel)
        services.stop(media.take())
        context.fireChannelInactive()
    }

    // MARK: Messages

    func receive(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext) {
        guard opcode == .text else { return refuse("binary frames are not understood", context) }
        let message: ClientMessage
        do {
            message = try ClientMessage(decoding: Array(data.readableBytesView), maximumSize: Self.maximumMessageSize)
        } catch {
            return refuse(error.message, context)
        }
        switch message {
        case .offer(let sdp):
            guard media == nil else { return refuse("there is an offer already", context) }
            start(sdp, context)
        case .iceCandidate(let candidate):
            candidateCount += 1
            let size = candidate?.candidate.utf8.count ?? 0
            guard candidateCount <= Self.maximumCandidateCount, size <= 1024 else { return }
            media?.perform(.addCandidate(candidate.flatMap { $0.candidate.isEmpty ? nil : $0 }))
        default:
            refuse("only offer and ice-candidate are understood here", context)
        }
    }

    private func start(_ offer: String, _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        services.group.enter()
        media = services.engine.makeViewer(of: admission.source, room: nil) { [log = services.log] event in
            let message: ServerMessage
            switch event {
            case .answered(let sdp, _): message = .answer(sdp: sdp)
            case .localCandidate(let candidate, _): message = .iceCandidate(candidate)
            case .failed(let reason):
                log("page: media failed: \(LogText.clean(reason))")
                message = .error(reason)
            case .offered, .logged, .connected, .streamArrived: return
            }
            eventLoop.execute {
                let (handler, context) = bound.value
                handler.send(message, context)
            }
        }
        media?.perform(.receiveOffer(offer))
    }

    // MARK: Outgoing frames

    private func refuse(_ text: String, _ context: ChannelHandlerContext) {
        send(.error(text), context)
    }

    private func send(_ message: ServerMessage, _ context: ChannelHandlerContext) {
        guard let bytes = try? message.encoded() else { return }
        write(.text, ByteBuffer(bytes: bytes), context)
    }

    func log(_ text: String) { services.log("page: \(text)") }
}
