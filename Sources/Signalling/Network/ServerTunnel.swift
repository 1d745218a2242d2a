// A byte pipe through TLS, an HTTP proxy or both, for libraries that know neither. It knows neither TURN nor media.
import DecartProtocol
package import DecartSession
import EventLoopThreads
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

/// Listens on a port of 127.0.0.1 and forwards each connection to one port of one host, through verified TLS if `trust`
/// is set.
///
/// Any local process may connect; it gains nothing that it could not do by itself. The tunnel ends with `close()` or
/// when it is released.
package final class ServerTunnel: Sendable {
    package enum Event: Sendable, Equatable {
        case listening(port: UInt16)
        /// The listener could not be opened, or a connection through the tunnel failed. Emitted once.
        case failed(SessionError)
    }

    private let tunnel: Tunnel

    /// - Parameters:
    ///   - host: a host name or an address literal; IPv6 without brackets.
    ///   - trust: nil: no TLS.
    ///   - limit: timeout for connecting and again for the TLS handshake.
    ///   - onEvent: called on the network thread; must not block.
    package init(
        host: String, port: UInt16, trust: TLSTrust?, route: NetworkRoute = NetworkRoute(),
        limit: Duration = .seconds(8),
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        let tunnel = Tunnel(
            connector: ServerConnector(
                host: host, port: Int(port), route: route, limit: TimeAmount(limit), resolveLimit: TimeAmount(limit)),
            loop: EventLoops.group.next(), onEvent: onEvent)
        self.tunnel = tunnel
        // This reads the root certificates' files.
        SerialQueue(label: "decart-trust").async {
            let context = Result { () throws(SessionError) in try trust?.makeContext(protocols: []) }
            tunnel.loop.execute { tunnel.open(context) }
        }
    }

    deinit { close() }

    package func close() {
        tunnel.loop.execute { [tunnel] in tunnel.close() }
    }
}

/// The listener and its connections.
// @unchecked: after init, used only on `loop`.
private final class Tunnel: @unchecked Sendable {
    /// libnice connects once for each local address.
    static let maximumConnections = 32

    let loop: any EventLoop
    private let connector: ServerConnector
    private var onEvent: (@Sendable (ServerTunnel.Event) -> Void)?
    private var isClosed = false
    private var hasFailed = false
    private var listener: (any Channel)?
    private var connections: [ObjectIdentifier: any Channel] = [:]

    init(
        connector: ServerConnector, loop: any EventLoop, onEvent: @escaping @Sendable (ServerTunnel.Event) -> Void
    ) {
        self.connector = connector
        self.loop = loop
        self.onEvent = onEvent
    }

    func open(_ context: Result<NIOSSLContext?, SessionError>) {
        guard !isClosed else { return }
        let tls: NIOSSLContext?
        do { tls = try context.get() } catch { return fail(error) }
        guard let socket = Self.makeSocket() else { return failListening() }
        // Both channels of a connection share one event loop, so that the pipe ends can call each other directly.
        ServerBootstrap(group: loop)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { near in
                near.eventLoop.makeCompletedFuture { try self.accept(near, tls) }
            }
            .withBoundSocket(socket)
            .whenComplete { result in self.bound(result) }
    }

    /// Creates the listening socket with CLOEXEC. Child processes would inherit a socket of NIO's own, and the listener
    /// would outlive its tunnel.
    private static func makeSocket() -> CInt? {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        let status = try? SocketAddress(ipAddress: "127.0.0.1", port: 0).withSockAddr { address, size in
            bind(descriptor, address, socklen_t(size))
        }
        guard status == 0 else {
            Glibc.close(descriptor)
            return nil
        }
        return descriptor
    }

    private func bound(_ result: Result<any Channel, any Error>) {
        switch result {
        case .failure: failListening()
        case .success(let channel):
            guard !isClosed, let bound = channel.localAddress?.port, let port = UInt16(exactly: bound) else {
                channel.close(promise: nil)
                return
            }
            listener = channel
            onEvent?(.listening(port: port))
        }
    }

    // MARK: Connections

    private struct Refused: Error {}

    private func accept(_ near: any Channel, _ tls: NIOSSLContext?) throws {
        guard !isClosed, connections.count < Self.maximumConnections else { throw Refused() }
        near.keepFromChildren()
        keep(near)
        let (nearEnd, farEnd) = PipeEnd.pair { self.failed($0, $1) }
        try near.pipeline.syncOperations.addHandler(nearEnd)
        let farBound = NIOLoopBound(farEnd, eventLoop: loop)
        connector.connect(on: loop, tls: tls) { far in
            try far.pipeline.syncOperations.addHandler(farBound.value)
        }.whenComplete { result in
            switch result {
            case .success(let far):
                guard !self.isClosed, near.isActive else {
                    far.close(promise: nil)
                    near.close(promise: nil)
                    return
                }
                self.keep(far)
            case .failure(let error):
                self.failed(error, nil)
                near.close(promise: nil)
            }
        }
    }

    private func keep(_ channel: any Channel) {
        let id = ObjectIdentifier(channel)
        connections[id] = channel
        channel.closeFuture.whenComplete { _ in self.connections[id] = nil }
    }

    private func failed(_ error: any Error, _ certificate: NIOSSLCertificate?) {
        fail(ConnectFailure.error(error, host: connector.host, port: connector.port, certificate: certificate))
    }

    // MARK: Closing

    private func failListening() {
        fail(
            SessionError(
                .network,
                "No local port could be opened for the tunnel to the TURN server. Check the limit of open files.",
                stage: .connect))
    }

    private func fail(_ error: SessionError) {
        guard !isClosed, !hasFailed else { return }
        hasFailed = true
        onEvent?(.failed(error))
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        onEvent = nil
        listener?.close(promise: nil)
        listener = nil
        for channel in connections.values { channel.close(promise: nil) }
    }
}

/// One end of the pipe. It reads only as fast as the other end can write.
private final class PipeEnd: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    typealias OnFailure = (any Error, NIOSSLCertificate?) -> Void

    /// True once the channel is active: this end accepts data from the other end.
    private var isOpen = false
    /// Called for an error or a close before that.
    private let onFailure: OnFailure?
    /// The two ends retain each other until one of the channels is closed.
    private var other: PipeEnd?
    private var context: ChannelHandlerContext?
    private var readIsWaiting = false

    private init(onFailure: OnFailure?) { self.onFailure = onFailure }

    /// - Parameter onFailure: called if the remote end cannot be opened.
    /// - Returns: the local and the remote end.
    static func pair(onFailure: @escaping OnFailure) -> (PipeEnd, PipeEnd) {
        let (near, far) = (PipeEnd(onFailure: nil), PipeEnd(onFailure: onFailure))
        (near.other, far.other) = (far, near)
        return (near, far)
    }

    func channelActive(context: ChannelHandlerContext) {
        isOpen = true
        other?.readOn()
        context.fireChannelActive()
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        other = nil
    }

    func read(context: ChannelHandlerContext) {
        if other?.canWrite == true { context.read() } else { readIsWaiting = true }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        other?.context?.write(NIOAny(unwrapInboundIn(data)), promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        other?.context?.flush()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { other?.readOn() }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        if !isOpen { onFailure?(ChannelError.eof, nil) }
        other?.context?.close(promise: nil)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if !isOpen { onFailure?(error, context.tls?.peerCertificate) }
        context.close(promise: nil)
    }

    private var canWrite: Bool { isOpen && context?.channel.isWritable ?? false }

    private func readOn() {
        guard readIsWaiting else { return }
        readIsWaiting = false
        context?.read()
    }
}
