import NIOCore
import NIOHTTP1

/// Sends one request and collects one bounded response.
final class RequestHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    typealias Outcome = Result<(head: HTTPResponseHead, body: [UInt8]), any Error>

    private let head: HTTPRequestHead
    private let body: String
    private let maximumSize: Int
    private let onOutcome: (ChannelHandlerContext, Outcome) -> Void
    private var answer: HTTPResponseHead?
    private var received: [UInt8] = []
    private var isDone = false

    /// - Parameter maximumSize: limit for the response body, in bytes.
    init(
        head: HTTPRequestHead, body: String, maximumSize: Int,
        onOutcome: @escaping (ChannelHandlerContext, Outcome) -> Void
    ) {
        self.head = head
        self.body = body
        self.maximumSize = maximumSize
        self.onOutcome = onOutcome
    }

    /// TLS, if there is any, has verified the server; see `ServerConnector`.
    func channelActive(context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !body.isEmpty {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            answer = head
        case .body(let part):
            guard received.count + part.readableBytes <= maximumSize else {
                // The body of an error response is not needed.
                let refusal = answer.flatMap { (200...299).contains($0.status.code) ? nil : $0 }
                return end(context, refusal.map { .success(($0, [])) } ?? .failure(TooLong()))
            }
            received += part.readableBytesView
        case .end:
            end(context, answer.map { .success(($0, received)) } ?? .failure(ChannelError.eof))
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(context, .failure(error))
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(context, .failure(ChannelError.eof))
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
