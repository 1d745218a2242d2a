// From a connected (and, with TLS, verified) socket to a WebSocket: one HTTP request, one answer, then either the
// pipeline is swapped or the refusal is explained. The request line holds the key: it is written nowhere else, and not
// before TLS has verified whom it goes to.
import DecartProtocol
import DecartSession
import NIOCore
import NIOHTTP1
import NIOTLS
import NIOWebSocket

final class UpgradeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    static let maximumHeaderFields = 64
    static let maximumHeaderSize = 16 << 10
    static let maximumBodySize = 64 << 10

    enum Outcome {
        case requested
        case upgraded
        case failed(any Error)
    }

    private let url: ServiceURL
    private let userAgent: String
    private let onOutcome: (ChannelHandlerContext, Outcome) -> Void
    /// Knows the handshake's hash; NIO's own upgrade dance is not used, for it hides refusals.
    private let upgrader = NIOWebSocketClientUpgrader { channel, _ in channel.eventLoop.makeSucceededVoidFuture() }
    private var isRequested = false
    private var isDone = false
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []

    init(
        url: ServiceURL, userAgent: String, onOutcome: @escaping (ChannelHandlerContext, Outcome) -> Void
    ) {
        self.url = url
        self.userAgent = userAgent
        self.onOutcome = onOutcome
    }

    static var decoderLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldCount = maximumHeaderFields
        limits.maxHeaderFieldSize = maximumHeaderSize
        limits.maxHeaderListSize = maximumHeaderSize
        return limits
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if !url.isSecure, context.channel.isActive { request(context) }
    }

    func channelActive(context: ChannelHandlerContext) {
        if !url.isSecure { request(context) }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { request(context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func request(_ context: ChannelHandlerContext) {
        guard !isRequested else { return }
        isRequested = true
        var headers = HTTPHeaders([
            ("Host", url.hostHeader), ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("User-Agent", userAgent),
        ])
        upgrader.addCustom(upgradeRequestHeaders: &headers)
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: url.requestTarget, headers: headers)
        onOutcome(context, .requested)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
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
        end(context, .failed(error))
    }

    func channelInactive(context: ChannelHandlerContext) {
        // A refusal whose body the peer ends by closing is complete; anything less is a lost connection.
        if head != nil { finish(context) } else { end(context, .failed(ChannelError.eof)) }
        context.fireChannelInactive()
    }

    private func finish(_ context: ChannelHandlerContext) {
        guard let head, !isDone else { return }
        guard head.status == .switchingProtocols else {
            let refusal = UpgradeRefusal(head: head, body: body, url: url)
            end(context, .failed(refusal.error))
            return
        }
        // RFC 6455 §4.1: the accept hash, the two header fields, and nothing that was not asked for.
        let upgrade = head.headers[canonicalForm: "Upgrade"].map { $0.lowercased() }
        let connection = head.headers[canonicalForm: "Connection"].map { $0.lowercased() }
        guard upgrade == ["websocket"], connection.contains("upgrade"),
            upgrader.shouldAllowUpgrade(upgradeResponse: head)
        else {
            end(context, .failed(invalid("its handshake is invalid")))
            return
        }
        guard !head.headers.contains(name: "Sec-WebSocket-Extensions"),
            !head.headers.contains(name: "Sec-WebSocket-Protocol")
        else {
            end(context, .failed(invalid("it turns on an extension or protocol that was not asked for")))
            return
        }
        end(context, .upgraded)
    }

    private func invalid(_ reason: String) -> SessionError {
        SessionError(.webSocket, "\(url.host) does not upgrade to WebSocket properly: \(reason).", stage: .upgrade)
    }

    private func end(_ context: ChannelHandlerContext, _ outcome: Outcome) {
        guard !isDone else { return }
        isDone = true
        onOutcome(context, outcome)
    }
}

/// Bounds what a peer may send before the upgrade, whatever the HTTP parser makes of it.
final class InboundLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private var remaining = UpgradeHandler.maximumHeaderSize + UpgradeHandler.maximumBodySize + (16 << 10)

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        remaining -= unwrapInboundIn(data).readableBytes
        guard remaining >= 0 else {
            context.fireErrorCaught(
                SessionError(.webSocket, "The answer to the WebSocket upgrade is endless.", stage: .upgrade))
            context.close(promise: nil)
            return
        }
        context.fireChannelRead(data)
    }
}
