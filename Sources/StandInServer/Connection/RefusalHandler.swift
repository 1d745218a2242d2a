import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Answers every HTTP request that did not become a WebSocket, and limits how long a connection may take to become one.
final class RefusalHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart

    static let name = "refusal"
    private static let closeTimeout = TimeAmount.seconds(10)

    private static let maximumBodySize = 64 << 10

    private let admit: (HTTPRequestHead) -> Admission
    private let answerToBody: (HTTPRequestHead, [UInt8]) -> HTTPAnswer?
    private let log: @Sendable (String) -> Void
    private var deadline: Scheduled<Void>?
    private var answer: HTTPAnswer?
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var isEndless = false

    /// - Parameter answer: answers a request that needs its body; nil: `admit` decides.
    init(
        admit: @escaping (HTTPRequestHead) -> Admission,
        answer: @escaping (HTTPRequestHead, [UInt8]) -> HTTPAnswer? = { _, _ in nil },
        log: @escaping @Sendable (String) -> Void
    ) {
        self.admit = admit
        answerToBody = answer
        self.log = log
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: Self.closeTimeout) { channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        deadline?.cancel()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            switch admit(head) {
            case .refused(let answer): self.answer = answer
            case .admitted: answer = HTTPAnswer(426, "this is a WebSocket service")
            case .neverAnswered: isEndless = true
            }
        case .body(let part):
            guard body.count + part.readableBytes <= Self.maximumBodySize else { return context.close(promise: nil) }
            body += part.readableBytesView
        case .end:
            if let head, let answer = answerToBody(head, body) { self.answer = answer }
            if isEndless { respondEndlessly(context) } else { respond(context) }
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ShutdownNotice { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The upgrader refused, or the upgrade request is malformed. The request itself follows and is answered.
        if error is NIOWebSocketUpgradeError { return }
        // Do not log the error: a parser's or TLS's error may quote what the peer sent.
        context.close(promise: nil)
    }

    private func respond(_ context: ChannelHandlerContext) {
        guard var answer else { return }
        log("refused: HTTP \(answer.status), \(answer.text)")
        // RFC 9110 §15.5.22: a 426 answer must name the protocol.
        if answer.status == 426 { answer.headers["Upgrade"] = "websocket" }
        answer.write(to: context)
        context.close(promise: nil)
    }

    /// Writes below the HTTP encoder, which would end the header.
    private func respondEndlessly(_ context: ChannelHandlerContext) {
        deadline?.cancel()
        guard let encoder = try? context.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self) else {
            return
        }
        log("answers with header fields without end")
        encoder.writeAndFlush(NIOAny(ByteBuffer(string: "HTTP/1.1 101 Switching Protocols\r\n")), promise: nil)
        EndlessWriter.write(
            ByteBuffer(string: String(repeating: "X-Fault: endless_headers\r\n", count: 64)), from: encoder)
    }
}
