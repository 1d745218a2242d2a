// Controls a running stand-in over HTTP, for tests in other processes and languages. It listens on loopback only, on
// its own port, so that it still answers while the service itself refuses connections or breaks TLS. It rejects
// browsers, so that no web page can control it.
import Dispatch
import NIOCore
import NIOHTTP1
import NIOPosix

enum ControlEndpoint {
    static func open(port: Int, group: any EventLoopGroup, of server: StandInServer) throws -> any Channel {
        try ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [weak server] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(ControlHandler(server: server))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .wait()
    }
}

extension StandInServer {
    /// The control endpoint's requests, formatted for a terminal.
    package static var controlHelp: String {
        ControlRequest.help.split(separator: "\n").map { "  " + $0 }.joined(separator: "\n")
    }
}

/// Serves one request and closes the connection.
final class ControlHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private static let maximumBodySize = 64 << 10

    private weak let server: StandInServer?
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()
    private var isTooLarge = false
    private var deadline: Scheduled<Void>?

    init(server: StandInServer?) {
        self.server = server
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: .seconds(10)) { channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        deadline?.cancel()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
        case .body(var part):
            isTooLarge = isTooLarge || body.readableBytes + part.readableBytes > Self.maximumBodySize
            if !isTooLarge { body.writeBuffer(&part) }
        case .end:
            answer(context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func answer(_ context: ChannelHandlerContext) {
        guard let head else { return }
        self.head = nil
        guard !isTooLarge else { return respond(.init(413, "the body is larger than 64 KiB"), context) }
        // DNS rebinding: a page whose host name resolves to this machine reads the answers as same-origin, without
        // `Origin`.
        guard BrowserGuard.namesThisMachine(head.headers) else {
            return respond(.init(403, "the Host of the request is no loopback name or address"), context)
        }
        // Every browser sends one of these (CORS, fetch metadata) with a request that can change state.
        guard !head.headers.contains(name: "Origin"), !head.headers.contains(name: "Sec-Fetch-Site") else {
            return respond(.init(403, "not for browsers"), context)
        }
        let request = ControlRequest(
            method: head.method.rawValue, target: head.uri, body: String(buffer: body))
        let answered = context.eventLoop.makePromise(of: HTTPAnswer.self)
        // Leave the event loop: some requests block until sockets are closed or bound.
        DispatchQueue.global().async { [weak server] in
            answered.succeed(server.map(request.answer) ?? HTTPAnswer(503, "the stand-in stops"))
        }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        answered.futureResult.whenSuccess { answer in
            let (handler, context) = bound.value
            if context.channel.isActive { handler.respond(answer, context) }
        }
    }

    private func respond(_ answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        let body = ByteBuffer(string: (answer.body ?? answer.words) + "\n")
        let headers = HTTPHeaders([
            ("Connection", "close"), ("Content-Type", answer.contentType), ("Content-Length", "\(body.readableBytes)"),
            ("Cache-Control", "no-store"),
        ])
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}
