// One connection to one port, to find out how far it gets: name lookup, TCP or UDP, TLS, and then bytes in both
// directions. It knows no protocol above that.
import DecartProtocol
package import DecartSession
import EventLoopThreads
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

/// A connection for a diagnosis. It ends with its first failure, with `close()`, or when the limit expires before
/// `connected`.
// @unchecked: after init, used only on `loop`, except the constants.
package final class ProbeConnection: @unchecked Sendable {
    package enum Transport: Sendable {
        case udp, tcp
        /// TLS over TCP.
        /// - Parameter protocols: the protocols to offer by ALPN.
        case tls(TLSTrust, protocols: [String])
    }

    package struct Connected: Sendable, Equatable {
        /// The remote address without the port.
        package var address: String
        /// Such as "TLS 1.3"; nil without TLS.
        package var tlsVersion: String?
        /// Seconds since 1970; nil without TLS.
        package var certificateExpiry: Int?
    }

    package enum Event: Sendable {
        /// The socket is connected; with TLS, the handshake is complete and the server is verified.
        case connected(Connected)
        case received([UInt8])
        /// The last event.
        case failed(SessionError)
    }

    private let host: String
    private let port: Int
    private let transport: Transport
    private let route: NetworkRoute
    private let limit: TimeAmount
    private let loop = EventLoops.group.next()
    private var onEvent: (@Sendable (Event) -> Void)?
    private var channel: (any Channel)?
    private var timer: Scheduled<Void>?
    private var isOpen = false

    /// - Parameters:
    ///   - host: a host name or an address literal; IPv6 without brackets.
    ///   - route: its proxy does not apply to UDP.
    ///   - limit: timeout for everything up to `connected`.
    ///   - onEvent: called on the network thread; must not block.
    package init(
        host: String, port: Int, transport: Transport, route: NetworkRoute = NetworkRoute(), limit: Duration,
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        self.host = host
        self.port = port
        self.transport = transport
        self.route = route
        self.limit = TimeAmount(limit)
        self.onEvent = onEvent
    }

    package func open() {
        // Reading the root certificates blocks.
        SerialQueue(label: "decart-trust").async {
            let context = Result { () throws(SessionError) -> NIOSSLContext? in
                guard case .tls(let trust, let protocols) = self.transport else { return nil }
                return try trust.makeContext(protocols: protocols)
            }
            self.loop.execute { self.connect(context) }
        }
    }

    /// Sends bytes; with UDP, one datagram. Does nothing before `connected`.
    package func send(_ bytes: [UInt8]) { loop.execute { self.write(bytes) } }

    /// Call it unless the connection has failed: an open one stays open without its owner.
    package func close() { loop.execute { self.end() } }

    private func connect(_ context: Result<NIOSSLContext?, SessionError>) {
        guard onEvent != nil else { return }
        timer = loop.scheduleTask(in: limit) { self.timedOut() }
        let tls: NIOSSLContext?
        do { tls = try context.get() } catch { return fail(error) }
        if case .udp = transport { connectUDP() } else { connectTCP(tls) }
    }

    private func connectTCP(_ tls: NIOSSLContext?) {
        let connector = ServerConnector(host: host, port: port, route: route, limit: limit, resolveLimit: limit)
        connector.connect(on: loop, tls: tls) { channel in
            try channel.pipeline.syncOperations.addHandler(StreamEnd(connection: self))
        }.whenComplete { result in
            switch result {
            case .success(let channel): self.keep(channel)
            case .failure(let error): self.failed(error, nil)
            }
        }
    }

    private func connectUDP() {
        if let address = try? SocketAddress(ipAddress: host, port: port) { return connectUDP(to: address) }
        let answer = loop.makePromise(of: [SocketAddress].self)
        NameResolver.lookUp(host: host, port: port) { answer.completeWith($0) }
        answer.futureResult.whenComplete { result in
            guard self.onEvent != nil else { return }
            switch result {
            case .failure(let error): self.failed(error, nil)
            // `lookUp` throws rather than return an empty list.
            case .success(let addresses): if let first = addresses.first { self.connectUDP(to: first) }
            }
        }
    }

    /// A connected UDP socket reports a closed port, which arrives as ICMP, as an error.
    private func connectUDP(to address: SocketAddress) {
        // There is no handshake to wait for.
        timer?.cancel()
        let source = route.source(to: host)
        DatagramBootstrap(group: loop)
            .channelInitializer { channel in
                channel.keepFromChildren()
                return channel.eventLoop.makeCompletedFuture {
                    try source?.bind(channel)
                    try channel.pipeline.syncOperations.addHandler(DatagramEnd(connection: self))
                }
            }
            .connect(to: address)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    self.keep(channel)
                    self.connected(channel, nil)
                case .failure(let error): self.failed(error, nil)
                }
            }
    }

    private func keep(_ channel: any Channel) {
        // It may have been closed or have timed out meanwhile.
        if onEvent == nil { channel.close(promise: nil) } else { self.channel = channel }
    }

    // MARK: Events of the channel

    fileprivate func connected(_ channel: any Channel, _ tls: NIOSSLClientHandler?) {
        guard !isOpen, let onEvent else { return }
        isOpen = true
        self.channel = channel
        timer?.cancel()
        var facts = Connected(address: channel.remoteAddress?.ipAddress ?? host)
        if let tls {
            facts.tlsVersion = tls.tlsVersion.map { $0 == .tlsv13 ? "TLS 1.3" : "TLS 1.2" }
            facts.certificateExpiry = tls.peerCertificate.map { Int($0.notValidAfter) }
        }
        onEvent(.connected(facts))
    }

    fileprivate func received(_ buffer: ByteBuffer) { onEvent?(.received([UInt8](buffer.readableBytesView))) }

    fileprivate func failed(_ error: any Error, _ certificate: NIOSSLCertificate?) {
        fail(ConnectFailure.error(error, host: host, port: port, certificate: certificate))
    }

    // MARK: The end

    private func timedOut() {
        if case .udp = transport { return fail(NameLookup.timeout(of: host)) }
        guard case .tls = transport, channel != nil else {
            return fail(ConnectFailure.timeout(host: host, port: port))
        }
        fail(
            SessionError(
                .connectionTimeout,
                "\(host):\(port) accepted the connection and did not answer the TLS handshake in time. "
                    + "Check that the port is one for TLS, and proxies.", stage: .tls))
    }

    private func fail(_ error: SessionError) {
        let onEvent = onEvent
        end()
        onEvent?(.failed(error))
    }

    private func write(_ bytes: [UInt8]) {
        guard isOpen, let channel else { return }
        let buffer = ByteBuffer(bytes: bytes)
        if case .udp = transport, let remote = channel.remoteAddress {
            channel.writeAndFlush(AddressedEnvelope(remoteAddress: remote, data: buffer), promise: nil)
        } else {
            channel.writeAndFlush(buffer, promise: nil)
        }
    }

    private func end() {
        onEvent = nil
        timer?.cancel()
        timer = nil
        channel?.close(promise: nil)
        channel = nil
    }
}

package enum NameLookup {
    /// Finds the distinct addresses of a host, in the system's order of preference.
    /// - Parameter completion: called on another thread, after as long as the system's resolver takes, which can be half
    ///   a minute.
    package static func addresses(
        of host: String, completion: @escaping @Sendable (Result<[String], SessionError>) -> Void
    ) {
        NameResolver.lookUp(host: host, port: 0) { result in
            completion(
                result.map { addresses in
                    var seen: [String] = []
                    for text in addresses.compactMap(\.ipAddress) where !seen.contains(text) { seen.append(text) }
                    return seen
                }.mapError { ConnectFailure.error($0, host: host, port: 0) })
        }
    }

    /// The error of a lookup that took too long.
    package static func timeout(of host: String) -> SessionError {
        ConnectFailure.error(ResolveError(reason: .timeout), host: host, port: 0)
    }
}

/// The end of a stream's pipeline.
private final class StreamEnd: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: ProbeConnection

    init(connection: ProbeConnection) { self.connection = connection }

    func channelActive(context: ChannelHandlerContext) { connection.connected(context.channel, context.tls) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { connection.received(unwrapInboundIn(data)) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        connection.failed(error, context.tls?.peerCertificate)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { connection.failed(ChannelError.eof, nil) }
}

/// The end of a UDP socket's pipeline.
private final class DatagramEnd: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>

    private let connection: ProbeConnection

    init(connection: ProbeConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { connection.received(unwrapInboundIn(data).data) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { connection.failed(error, nil) }
}
