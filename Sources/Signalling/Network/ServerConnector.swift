// Opens a connection to a server, directly or through an HTTP proxy, with or without TLS. The handlers of the caller see
// the channel become active when the tunnel is open and TLS has verified the server, so they need to know neither.
import DecartProtocol
import DecartSession
import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS

struct ServerConnector: Sendable {
    let host: String
    let port: Int
    let route: NetworkRoute
    /// Timeout of the TCP connection, of the proxy's answer, and of the TLS handshake.
    let limit: TimeAmount
    let resolveLimit: TimeAmount
    /// No connection to this machine or to an address of its link, whatever name leads there. The proxy may be there.
    var refusesLocal = false

    /// - Parameters:
    ///   - tls: nil: no TLS.
    ///   - prepare: adds the caller's handlers; called on the event loop.
    /// - Returns: the channel, once TCP is connected: to the proxy if there is one, whose tunnel is not open then. A
    ///   proxy that refuses, and a failure of TLS, arrive as an error in the pipeline.
    func connect(
        on loop: any EventLoop, tls: NIOSSLContext?, prepare: @escaping @Sendable (any Channel) throws -> Void
    ) -> EventLoopFuture<any Channel> {
        if refusesLocal, HTTPURL.isLocal(host: host) {
            return loop.makeFailedFuture(ResolveError(reason: .local))
        }
        let proxy = route.proxy(to: host)
        let (host, port) = (proxy?.host ?? host, proxy?.port ?? port)
        let source = route.source(to: host)
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(limit)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .resolver(NameResolver(loop: loop, limit: resolveLimit, refusesLocal: refusesLocal && proxy == nil))
            .channelInitializer { channel in
                channel.keepFromChildren()
                return channel.eventLoop.makeCompletedFuture {
                    try source?.bind(channel)
                    if let proxy { try addTunnel(through: proxy, to: channel) }
                    if let tls { try addTLS(tls, to: channel) }
                    try prepare(channel)
                }
            }
        // An address needs no lookup.
        let connected =
            if let address = try? SocketAddress(ipAddress: host, port: port) {
                bootstrap.connect(to: address)
            } else {
                bootstrap.connect(host: host, port: port)
            }
        guard let proxy else { return connected }
        return connected.flatMapErrorThrowing { throw ProxyFailure(unreachable: proxy, $0) }
    }

    /// Adds TLS with full verification of `host`.
    private func addTLS(_ context: NIOSSLContext, to channel: any Channel) throws {
        // RFC 6066 §3: server_name carries neither an address nor a trailing dot; TLS then verifies the address.
        let isAddress = (try? SocketAddress(ipAddress: host, port: port)) != nil
        // NIOSSL would verify the address of the connection's other end, which is the proxy's.
        if isAddress, let proxy = route.proxy(to: host) { throw ProxyFailure(cannotVerify: target, through: proxy) }
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        let handler = try NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : name)
        try channel.pipeline.syncOperations.addHandlers([handler, HandshakeGate(limit: limit)])
    }

    private var target: String { host.contains(":") ? "[\(host)]" : host }

    private func addTunnel(through proxy: ProxyURL, to channel: any Channel) throws {
        var headers = HTTPHeaders([("Host", "\(target):\(port)")])
        if let authorization = proxy.authorization {
            headers.add(name: "Proxy-Authorization", value: authorization.reveal())
        }
        let loop = channel.eventLoop
        let promise = loop.makePromise(of: Void.self)
        // A little shorter than the caller's limit, whose error would not name the proxy.
        let connect = NIOHTTP1ProxyConnectHandler(
            targetHost: target, targetPort: port, headers: headers,
            deadline: .now() + .nanoseconds(limit.nanoseconds / 10 * 9),
            promise: promise)
        let encoder = HTTPRequestEncoder()
        let decoder = ByteToMessageHandler(
            HTTPResponseDecoder(
                leftOverBytesStrategy: .dropBytes, limitConfiguration: UpgradeHandler.decoderLimits))
        let status = ProxyStatusReader()
        let gate = TunnelGate { error in
            ProxyFailure(error, of: proxy, to: "\(target):\(port)", status: status.status)
        }
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers([encoder, decoder, status, connect, gate])
        promise.futureResult.assumeIsolated().whenSuccess {
            // `connect` has removed itself. NIO's HTTP decoder traps on a write that is not HTTP, so nothing may start
            // before its removal, which takes a turn of the event loop.
            let pipeline = channel.pipeline.syncOperations
            pipeline.removeHandler(encoder, promise: nil)
            pipeline.removeHandler(status, promise: nil)
            pipeline.removeHandler(decoder).assumeIsolated().whenSuccess { gate.open() }
        }
    }
}

/// Reads the status of the proxy's answer, which the error of `NIOHTTP1ProxyConnectHandler` does not tell.
private final class ProxyStatusReader: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    private(set) var status: Int?

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data) { status = Int(head.status.code) }
        context.fireChannelRead(data)
    }
}

/// Withholds `channelActive`, with which TLS and the caller's protocol start, until the tunnel is open.
private final class TunnelGate: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    private let explain: (any Error) -> ProxyFailure?
    private var context: ChannelHandlerContext?

    init(explain: @escaping (any Error) -> ProxyFailure?) { self.explain = explain }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {}

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let failure = explain(error) { context.fireErrorCaught(failure) }
    }

    func open() {
        guard let context, context.channel.isActive else { return }
        context.fireChannelActive()
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }
}

/// Withholds `channelActive`, with which the caller's protocol starts, until TLS has verified the server.
private final class HandshakeGate: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    private let limit: TimeAmount
    private var timer: Scheduled<Void>?

    init(limit: TimeAmount) { self.limit = limit }

    func channelActive(context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: limit) {
            context.fireErrorCaught(ChannelError.connectTimeout(self.limit))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        context.fireUserInboundEventTriggered(event)
        guard case .handshakeCompleted = event as? TLSUserEvent else { return }
        context.fireChannelActive()
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }
}

/// The failure of a proxy, which says nothing about the server behind it.
struct ProxyFailure: Error {
    let error: SessionError

    init(unreachable proxy: ProxyURL, _ cause: any Error) {
        let attempts = (cause as? NIOConnectionError)?.connectionErrors.map(\.error) ?? [cause]
        if let own = attempts.lazy.compactMap({ $0 as? ProxyFailure }).first {
            self = own
            return
        }
        var error = ConnectFailure.error(cause, host: proxy.host, port: proxy.port)
        error.message = "The HTTP proxy cannot be reached. \(error.message) Check http-proxy."
        self.error = error
    }

    init(cannotVerify address: String, through proxy: ProxyURL) {
        error = SessionError(
            .network,
            "The certificate of \(address) cannot be verified through the HTTP proxy \(proxy.place), because the URL has an "
                + "address. Use a host name.", stage: .tls, isPermanent: true)
    }

    /// - Parameters:
    ///   - target: host and port of the server.
    ///   - status: HTTP status of the proxy's answer, if there was one.
    /// - Returns: nil if the error is only a consequence of another one.
    init?(_ cause: any Error, of proxy: ProxyURL, to target: String, status: Int?) {
        typealias ConnectError = NIOHTTP1ProxyConnectHandler.Error
        func network(_ message: String, isPermanent: Bool = false) -> SessionError {
            SessionError(
                .network, "The HTTP proxy \(proxy.place) \(message)", stage: .connect, isPermanent: isPermanent)
        }
        guard let cause = cause as? ConnectError else {
            error = network("answered with something else than HTTP. Check the port of http-proxy.")
            return
        }
        if [.noResult(), .channelUnexpectedlyInactive(), .droppedWrites()].contains(cause) { return nil }
        switch status {
        case nil where cause == .httpProxyHandshakeTimeout():
            error = SessionError(
                .connectionTimeout,
                "The HTTP proxy \(proxy.place) did not connect to \(target) in time. Check the proxy and the service.",
                stage: .connect)
        case nil:
            error = network("closed the connection before it answered. Check that http-proxy names an HTTP proxy.")
        case 407 where proxy.authorization == nil:
            error = network(
                "requires a user name and a password (HTTP 407). Set http-proxy=http://user:password@host:port.",
                isPermanent: true)
        // tinyproxy answers wrong credentials with 401.
        case .some(let status) where status == 407 || status == 401:
            error = network(
                "rejected the user name or the password (HTTP \(status)), or wants another authentication than Basic. "
                    + "Correct http-proxy.", isPermanent: true)
        case .some(let status) where status == 403 || status == 405:
            error = network(
                "refuses connections to \(target) (HTTP \(status)). Permit CONNECT to it in the proxy.",
                isPermanent: true)
        case .some(let status) where (502...504).contains(status):
            error = network("cannot reach \(target) (HTTP \(status)). Check the service and the proxy's log.")
        case .some(let status):
            error = network(
                "answered with HTTP \(status) to CONNECT \(target). Check that http-proxy names an HTTP proxy.")
        }
    }
}
