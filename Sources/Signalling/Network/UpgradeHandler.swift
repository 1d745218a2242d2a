// Upgrades a connected (and, with TLS, verified) socket to a WebSocket: sends one HTTP request and reads one response,
// then either replaces the pipeline's handlers or reports the rejection. The request contains the key: it is logged
// nowhere, and sent only after TLS has verified the server.
import DecartProtocol
import DecartSession
import NIOCore
import NIOHTTP1
import NIOWebSocket

final class UpgradeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    static let maximumHeaderFields = 64
    static let maximumHeaderSize = 16 << 10
    static let maximumBodySize = 64 << 10

    private let url: ServiceURL
    private let userAgent: String
    private let mayRequest: () -> Bool
    /// Gets success once the pipeline takes frames.
    private let onOutcome: (ChannelHandlerContext, Result<Void, any Error>) -> Void
    /// Generates the handshake's key and verifies its hash. NIO's own upgrade handler is not used, because it hides
    /// rejections.
    private let upgrader = NIOWebSocketClientUpgrader { channel, _ in channel.eventLoop.makeSucceededVoidFuture() }
    private var isDone = false
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []
    /// Data that follows the response while the pipeline's handlers are being replaced.
    private var held: [NIOAny] = []
    private var isHolding = false

    /// - Parameter mayRequest: called before the request; false: the owner has given up, and the server must not open a
    ///   session for it.
    init(
        url: ServiceURL, userAgent: String, mayRequest: @escaping () -> Bool,
        onOutcome: @escaping (ChannelHandlerContext, Result<Void, any Error>) -> Void
    ) {
        self.url = url
        self.userAgent = userAgent
        self.mayRequest = mayRequest
        self.onOutcome = onOutcome
    }

    static var decoderLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldCount = maximumHeaderFields
        limits.maxHeaderFieldSize = maximumHeaderSize
        limits.maxHeaderListSize = maximumHeaderSize
        return limits
    }

    /// TLS has verified the server; see `ServerConnector`.
    func channelActive(context: ChannelHandlerContext) {
        guard mayRequest() else { return context.close(promise: nil) }
        var headers = HTTPHeaders([
            ("Host", url.hostHeader), ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("User-Agent", userAgent),
        ])
        if let bearer = url.bearer { headers.add(name: "Authorization", value: "Bearer " + bearer.reveal()) }
        upgrader.addCustom(upgradeRequestHeaders: &headers)
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: url.requestTarget, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isHolding { held.append(data) }
        guard !isDone else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
        case .body(let part):
            body += part.readableBytesView.prefix(UpgradeHandler.maximumBodySize - body.count)
            if body.count >= UpgradeHandler.maximumBodySize { finish(context) }
        case .end:
            finish(context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(context, error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // A response whose body ends with the connection is complete; anything less is a lost connection.
        if head != nil { finish(context) } else { fail(context, ChannelError.eof) }
        context.fireChannelInactive()
    }

    private func finish(_ context: ChannelHandlerContext) {
        guard let head, !isDone else { return }
        guard head.status == .switchingProtocols else {
            return fail(context, UpgradeRefusal(head: head, body: body, url: url).error)
        }
        // RFC 6455 §4.1: verify the accept hash and both header fields, and reject extensions or subprotocols.
        let upgrade = head.headers[canonicalForm: "Upgrade"].map { $0.lowercased() }
        let connection = head.headers[canonicalForm: "Connection"].map { $0.lowercased() }
        guard upgrade == ["websocket"], connection.contains("upgrade"),
            upgrader.shouldAllowUpgrade(upgradeResponse: head)
        else {
            return fail(context, invalid("the Upgrade, Connection or Sec-WebSocket-Accept header is wrong"))
        }
        guard !head.headers.contains(name: "Sec-WebSocket-Extensions"),
            !head.headers.contains(name: "Sec-WebSocket-Protocol")
        else {
            return fail(context, invalid("it selects an extension or subprotocol that was not offered"))
        }
        swap(context)
    }

    /// Replaces the HTTP handlers by the WebSocket handlers. NIO's HTTP decoder also inspects writes and traps on one
    /// that is not HTTP, so nothing may be written until it is removed, which takes a turn of the event loop. On
    /// removal it forwards the bytes that followed the response, but not if it has seen the end of the connection
    /// before; so `InboundGate` delays the end, and the bytes wait in `held` until the WebSocket handlers are in place.
    private func swap(_ context: ChannelHandlerContext) {
        isDone = true
        isHolding = true
        let pipeline = context.pipeline.syncOperations
        let gate = try? pipeline.handler(type: InboundGate.self)
        gate?.holdEnd()
        pipeline.removeHandler(name: PipelineName.encoder, promise: nil)
        pipeline.removeHandler(name: PipelineName.decoder).assumeIsolated().whenComplete { _ in
            self.onOutcome(context, .success(()))
            self.isHolding = false
            for data in self.held { context.fireChannelRead(data) }
            self.held = []
            context.fireChannelReadComplete()
            gate?.releaseEnd()
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        }
    }

    private func invalid(_ reason: String) -> SessionError {
        SessionError(
            .webSocket,
            "\(url.host) sent an invalid WebSocket upgrade: \(reason). Check for a proxy that changes the connection.",
            stage: .upgrade)
    }

    private func fail(_ context: ChannelHandlerContext, _ error: any Error) {
        guard !isDone else { return }
        isDone = true
        onOutcome(context, .failure(error))
    }
}

enum PipelineName {
    static let encoder = "http-encoder"
    static let decoder = "http-decoder"
}

/// Bounds the data that a peer can send before the upgrade, independently of the HTTP parser. Also delays the end of
/// the connection while the pipeline's handlers are being replaced.
final class InboundGate: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private enum End { case passes, waits, hasCome }

    private var remaining = UpgradeHandler.maximumHeaderSize + UpgradeHandler.maximumBodySize + (16 << 10)
    private var end = End.passes
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Delays the end from now on and stops counting bytes: the response is complete.
    func holdEnd() {
        end = .waits
        remaining = .max
    }

    /// Forwards the end, if it has come, and removes this handler.
    func releaseEnd() {
        guard let context else { return }
        if end == .hasCome { context.fireChannelInactive() }
        end = .passes
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        guard end == .waits else { return context.fireChannelInactive() }
        end = .hasCome
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var buffer = unwrapInboundIn(data)
        remaining -= buffer.readableBytes
        guard remaining < 0 else { return context.fireChannelRead(data) }
        // Forward the bytes within the limit: they may suffice to explain a rejection.
        if let rest = buffer.readSlice(length: max(buffer.readableBytes + remaining, 0)) {
            context.fireChannelRead(wrapInboundOut(rest))
        }
        remaining = 0
        context.fireErrorCaught(
            SessionError(.webSocket, "The response to the WebSocket upgrade exceeds the size limit.", stage: .upgrade))
        context.close(promise: nil)
    }
}
