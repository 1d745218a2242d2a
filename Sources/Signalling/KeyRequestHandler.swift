import DecartProtocol
import NIOCore
import NIOHTTP1
import NIOTLS

/// One request, not before TLS has verified whom it goes to, and one bounded answer.
final class KeyRequestHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    enum Outcome {
        case answer(status: Int, body: [UInt8])
        case failed(any Error)
    }

    private let head: HTTPRequestHead
    private let body: String
    private let waitsForTLS: Bool
    private let onOutcome: (ChannelHandlerContext, Outcome) -> Void
    private var status: Int?
    private var received: [UInt8] = []
    private var isRequested = false
    private var isDone = false

    init(
        head: HTTPRequestHead, body: String, waitsForTLS: Bool,
        onOutcome: @escaping (ChannelHandlerContext, Outcome) -> Void
    ) {
        self.head = head
        self.body = body
        self.waitsForTLS = waitsForTLS
        self.onOutcome = onOutcome
    }

    func channelActive(context: ChannelHandlerContext) {
        if !waitsForTLS { request(context) }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { request(context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func request(_ context: ChannelHandlerContext) {
        guard !isRequested else { return }
        isRequested = true
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !body.isEmpty {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            status = Int(head.status.code)
        case .body(let part):
            guard received.count + part.readableBytes <= ClientToken.maximumSize else {
                // The body of a refusal is not read anyway.
                let isRefusal = status.map { !(200...299).contains($0) } ?? false
                return end(context, isRefusal ? .answer(status: status ?? 0, body: []) : .failed(TooLong()))
            }
            received += part.readableBytesView
        case .end:
            end(context, status.map { .answer(status: $0, body: received) } ?? .failed(ChannelError.eof))
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(context, .failed(error))
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(context, .failed(ChannelError.eof))
        context.fireChannelInactive()
    }

    private func end(_ context: ChannelHandlerContext, _ outcome: Outcome) {
        guard !isDone else { return }
        isDone = true
        onOutcome(context, outcome)
        context.close(promise: nil)
    }

    struct TooLong: Error {}
}
