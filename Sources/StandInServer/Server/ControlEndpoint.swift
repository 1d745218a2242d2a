// Controls a running stand-in over HTTP, for tests in other processes and languages. It listens on loopback only, on
// its own port, so that it still answers while the service itself refuses connections or breaks TLS. It rejects
// browsers, so that no web page can control it.
import DecartProtocol
import Dispatch
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

enum ControlEndpoint {
    /// Bounds what a local program can take: each request gets a queue of its own, and bodies are kept in memory.
    private static let maximumConnectionCount = SessionWait.maximumCount + 64

    static func open(port: Int, group: any EventLoopGroup, of server: StandInServer) throws -> any Channel {
        let (connections, services) = (OpenChannels(limit: maximumConnectionCount), server.services)
        return try ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { [weak server] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard connections.add(channel) else { throw ChannelError.operationUnsupported }
                    let pipeline = channel.pipeline.syncOperations
                    let page = server?.pageAccess
                    try pipeline.configureHTTPServerPipeline(
                        withServerUpgrade: page.map { page in
                            (
                                upgraders: [PageUpgrade.upgrader(page, services.viewers, services.media)],
                                completionHandler: { context in
                                    context.pipeline.syncOperations.removeHandler(
                                        name: ControlHandler.name, promise: nil)
                                }
                            )
                        })
                    try pipeline.addHandler(ControlHandler(server: server, page: page), name: ControlHandler.name)
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .wait()
    }
}

/// Serves one request and closes the connection.
final class ControlHandler: ChannelInboundHandler, RemovableChannelHandler {
    static let name = "control"
    typealias InboundIn = HTTPServerRequestPart

    private static let maximumBodySize = 64 << 10
    private static let maximumTargetSize = 32 << 10

    private weak let server: StandInServer?
    /// Nil: there is no page, and browsers are rejected.
    private let page: PageAccess?
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()
    private var isTooLarge = false
    private var deadline: Scheduled<Void>?
    private var wait: SessionWait?

    init(server: StandInServer?, page: PageAccess?) {
        self.server = server
        self.page = page
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: .seconds(10)) { channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        deadline?.cancel()
        wait?.cancel()
    }

    func channelInactive(context: ChannelHandlerContext) {
        wait?.cancel()
        context.fireChannelInactive()
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
        // The upgrade is refused, and its request follows.
        if error is NIOWebSocketUpgradeError { return }
        context.close(promise: nil)
    }

    private func answer(_ context: ChannelHandlerContext) {
        guard let head else { return }
        self.head = nil
        guard head.uri.utf8.count <= Self.maximumTargetSize else {
            return respond(HTTPAnswer(error: "the URL is longer than 32 KiB", status: 414), context)
        }
        guard !isTooLarge else { return respond(.init(413, "the body is larger than 64 KiB"), context) }
        // DNS rebinding: a page whose host name resolves to this machine reads the answers as same-origin, without
        // `Origin`.
        guard BrowserGuard.namesThisMachine(head.headers) else {
            return respond(.init(403, "the Host of the request is no loopback name or address"), context)
        }
        if PageAccess.isBrowser(head.headers) || (page != nil && head.uri.hasPrefix("/page/")) {
            guard let page else { return respond(.init(403, "not for browsers"), context) }
            if let refusal = page.refusal(of: head) { return respond(refusal, context) }
        }
        let request = ControlRequest(
            method: head.method.rawValue, target: head.uri, body: String(buffer: body),
            host: head.host ?? "")
        let answered = context.eventLoop.makePromise(of: ControlRequest.Reply.self)
        // Leave the event loop: some requests block until sockets are closed or bound. A serial queue gets a thread at
        // once; the global queue has only as many as the machine has cores.
        DispatchQueue(label: "decart-standin.control").async { [weak server] in
            answered.succeed(server.map(request.reply) ?? .answer(HTTPAnswer(503, "the stand-in stops")))
        }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        answered.futureResult.whenSuccess { reply in
            let (handler, context) = bound.value
            guard context.channel.isActive else { return }
            switch reply {
            case .answer(let answer): handler.respond(answer, context)
            case .wait(let query): handler.wait(for: query, context)
            }
        }
    }

    private func wait(for query: SessionQuery, _ context: ChannelHandlerContext) {
        guard let server, server.services.board.observerCount < SessionWait.maximumCount else {
            return respond(HTTPAnswer(error: "too many requests wait", status: 503), context)
        }
        deadline?.cancel()
        let json = server.sessionsJSON
        let wait = SessionWait(query, server.services.board) { [weak self] isMet, record in
            let session = record.map(json.value) ?? .null
            let answer =
                isMet
                ? HTTPAnswer(json: .fields(["session": session]))
                : HTTPAnswer(
                    json: .fields(["error": .string("no session met the conditions in time"), "session": session]),
                    status: 408)
            self?.respond(answer, context)
        }
        self.wait = wait
        wait.start(on: context.eventLoop)
    }

    private func respond(_ answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        var answer = answer
        answer.headers["Cache-Control"] = "no-store"
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.whenComplete { [channel = context.channel] _ in channel.close(promise: nil) }
        answer.write(to: context, promise: written)
    }
}
