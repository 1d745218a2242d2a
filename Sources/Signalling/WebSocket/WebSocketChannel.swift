// The control channel over TCP, TLS and WebSocket. It knows URLs, bytes and timeouts, but no message of the protocol
// and no media.
package import DecartProtocol
package import DecartSession
package import Log
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import Synchronization

package final class WebSocketChannel: SignallingChannel {
    /// The kind of messages to send and receive. Received messages of the other kind are ignored.
    package enum Messages: Sendable { case text, binary }

    package struct Configuration: Sendable {
        package var messages = Messages.text
        /// Largest message that is received, in bytes.
        package var maximumMessageSize = 1 << 20
        package var trust: TLSTrust = .system
        package var route = NetworkRoute()
        package var userAgent = "gst-decart"
        /// Interval between pings. The peer is silent if no frame arrives for one interval after a ping.
        package var pingInterval: Duration = .seconds(5)
        /// Timeout for the peer's part of the closing handshake.
        package var closeLimit: Duration = .milliseconds(250)
        /// Timeout for the name lookup, within the timeout of `open`.
        package var resolveLimit: Duration = .seconds(5)
        /// INFO: one line for each phase of opening, with its duration, and the end. TRACE: the size of each message.
        package var logger = Logger.none

        package init() {}
    }

    /// Limits for messages and bytes that the system has not accepted yet. Beyond them the peer is not reading, and the
    /// channel fails.
    private static let maximumQueuedMessages = 64
    private static let maximumQueuedBytes = 32 << 20

    private struct Queue {
        var messages = 0
        var bytes = 0
    }

    private let url: ServiceURL
    private let configuration: Configuration
    private let connection: Connection
    private let queue = Mutex(Queue())

    /// - Parameters:
    ///   - url: the complete URL with its query.
    ///   - onEvent: called on the network thread; must not block.
    package init(
        url: ServiceURL, configuration: Configuration = Configuration(),
        onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) {
        self.url = url
        self.configuration = configuration
        connection = Connection(
            url: url, configuration: configuration, loop: EventLoops.group.next(), onEvent: onEvent)
    }

    deinit {
        close()
    }

    package var sessionLimit: Duration? { url.sessionLimit }

    /// Opens the connection. Blocks briefly to read the trusted root certificates.
    package func open(timeout: Duration) {
        var context: NIOSSLContext?
        if url.isSecure {
            do {
                context = try configuration.trust.makeContext()
            } catch {
                connection.loop.execute { [connection] in connection.fail(error) }
                return
            }
        }
        connection.loop.execute { [connection, context] in connection.open(context, timeout: TimeAmount(timeout)) }
    }

    package func send(_ message: [UInt8]) {
        let size = min(message.count, WebSocketChannel.maximumQueuedBytes)
        let isWithinBounds = queue.withLock { queue in
            guard queue.messages < WebSocketChannel.maximumQueuedMessages,
                queue.bytes <= WebSocketChannel.maximumQueuedBytes - size
            else { return false }
            queue.messages += 1
            queue.bytes += message.count
            return true
        }
        let host = url.host
        connection.loop.execute { [connection, self] in
            guard isWithinBounds else {
                connection.fail(
                    SessionError(
                        .webSocket, "\(host) does not read its messages: too many wait to be sent.", stage: .channel))
                return
            }
            connection.send(message) { self.dequeued(message.count) }
        }
    }

    private func dequeued(_ bytes: Int) {
        queue.withLock { queue in
            queue.messages -= 1
            queue.bytes -= bytes
        }
    }

    package func messageHandled(size: Int) { connection.handled(size) }

    package func probe() { connection.loop.execute { [connection] in connection.probe() } }

    package func redacting(_ text: String) -> String { url.redacting(text) }

    package func close() {
        connection.loop.execute { [connection] in connection.close() }
    }
}

/// The connection, on its event loop.
// @unchecked: after init, used only on `loop`, except `handled(_:)` and the backlog in its Mutex.
private final class Connection: @unchecked Sendable {
    private enum Phase {
        case idle
        case connecting
        case upgrading
        case open(FrameHandler, ChannelHandlerContext)
        case ended
    }

    let loop: any EventLoop
    private let url: ServiceURL
    private let configuration: WebSocketChannel.Configuration
    private let onEvent: @Sendable (SignallingEvent) -> Void
    private var phase = Phase.idle
    private var channel: (any Channel)?
    private var timer: Scheduled<Void>?
    private var startedAt = NIODeadline.now()
    private var requestedAt: NIODeadline?
    private var limit: TimeAmount = .zero
    private var isClosing = false
    private let backlog = Mutex(Backlog())

    init(
        url: ServiceURL, configuration: WebSocketChannel.Configuration, loop: any EventLoop,
        onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) {
        self.url = url
        self.configuration = configuration
        self.loop = loop
        self.onEvent = onEvent
    }

    // MARK: Opening

    func open(_ tls: NIOSSLContext?, timeout: TimeAmount) {
        guard case .idle = phase else { return }
        phase = .connecting
        startedAt = .now()
        limit = timeout
        timer = loop.scheduleTask(in: timeout) { self.timedOut() }
        let connector = ServerConnector(
            host: url.host, port: url.port, route: configuration.route, limit: timeout,
            resolveLimit: min(timeout, TimeAmount(configuration.resolveLimit)))
        connector.connect(on: loop, tls: tls) { try self.prepare($0) }.whenComplete { result in
            switch result {
            case .success(let channel): self.connected(channel)
            case .failure(let error): self.fail(error, certificate: nil)
            }
        }
    }

    private func prepare(_ channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(InboundGate())
        try pipeline.addHandler(HTTPRequestEncoder(), name: PipelineName.encoder)
        let decoder = HTTPResponseDecoder(
            leftOverBytesStrategy: .forwardBytes, limitConfiguration: UpgradeHandler.decoderLimits)
        try pipeline.addHandler(ByteToMessageHandler(decoder), name: PipelineName.decoder)
        let upgrade = UpgradeHandler(
            url: url, userAgent: configuration.userAgent, mayRequest: { [weak self] in self?.mayRequest() ?? false },
            onOutcome: { [weak self] context, outcome in self?.upgrade(context, outcome) })
        try pipeline.addHandler(upgrade)
    }

    private func connected(_ channel: any Channel) {
        guard case .ended = phase else {
            self.channel = channel
            let way = configuration.route.proxy(to: url.host).map { " to the HTTP proxy \($0.place)" } ?? ""
            logger.info("\(place): TCP connected\(way) after \(elapsed)")
            return
        }
        // The channel was closed or timed out meanwhile.
        channel.close(promise: nil)
    }

    private func mayRequest() -> Bool {
        guard case .connecting = phase else { return false }
        phase = .upgrading
        requestedAt = .now()
        if url.isSecure { logger.info("\(place): TLS connected after \(elapsed)") }
        return true
    }

    private func upgrade(_ context: ChannelHandlerContext, _ outcome: Result<Void, any Error>) {
        do {
            try outcome.get()
            try startFrames(context)
        } catch {
            fail(error, certificate: context.tls?.peerCertificate)
            context.close(promise: nil)
        }
    }

    private func startFrames(_ context: ChannelHandlerContext) throws {
        guard case .upgrading = phase else { return }
        let now = NIODeadline.now()
        let requestedAt = requestedAt ?? now
        let frames = FrameHandler(configuration) { [weak self] event in self?.frames(event) }
        let pipeline = context.pipeline.syncOperations
        try pipeline.addHandler(WebSocketFrameEncoder())
        let decoder = WebSocketFrameDecoder(maxFrameSize: configuration.maximumMessageSize)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        try pipeline.addHandler(frames)
        let framesContext = try pipeline.context(handler: frames)
        timer?.cancel()
        phase = .open(frames, framesContext)
        logger.info("\(place): the WebSocket is open after \(elapsed)")
        onEvent(.opened(transport: Duration(requestedAt - startedAt), upgrade: Duration(now - requestedAt)))
    }

    private func timedOut() {
        let waiting =
            switch phase {
            case .upgrading: "the WebSocket upgrade"
            case .connecting where channel != nil && url.isSecure: "the TLS handshake"
            default: "the connection"
            }
        let seconds = Double(limit.nanoseconds) / 1e9
        fail(
            SessionError(
                .connectionTimeout,
                "\(url.host):\(url.port) did not answer within \(seconds.formatted) s (waiting for \(waiting)). "
                    + "Check the network and the service.",
                stage: waiting == "the WebSocket upgrade" ? .upgrade : .connect))
    }

    // MARK: Messages

    func send(_ message: [UInt8], dequeued: @escaping @Sendable () -> Void) {
        guard case .open(let handler, let context) = phase else { return dequeued() }
        let promise = loop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { _ in dequeued() }
        logger.log("\(place): sends a message of \(message.count) bytes")
        handler.send(context, message, promise: promise)
    }

    private func frames(_ event: FrameHandler.Event) {
        switch event {
        case .text(let bytes): emit(.text(bytes), size: bytes.count)
        case .binary(let bytes): emit(.binary(bytes), size: bytes.count)
        case .closed(let code, let reason):
            end(.closed(code: code, reason: url.redacting(reason)))
        case .violated(let reason):
            end(.failed(violation(reason)))
        case .failed(let error):
            fail(error, certificate: nil, polite: true)
        case .silent:
            guard !isClosing else { return }
            logger.info("\(place): no answer to a ping")
            onEvent(
                .silent(
                    SessionError(
                        .webSocket, "\(url.host) did not answer a ping; the connection is lost.", stage: .channel)))
        case .answered:
            if !isClosing { onEvent(.answered) }
        }
    }

    func probe() {
        guard case .open(let handler, let context) = phase else { return }
        handler.probe(context)
    }

    private func emit(_ message: SignallingEvent, size: Int) {
        guard !isClosing else { return }
        logger.log("\(place): received a message of \(size) bytes")
        if backlog.withLock({ $0.add(size) }) { updateReading() }
        onEvent(message)
    }

    /// Can be called from any thread.
    func handled(_ size: Int) {
        guard backlog.withLock({ $0.remove(size) }) else { return }
        loop.execute { self.updateReading() }
    }

    /// While reading is paused, messages wait in the socket buffers and then at the peer.
    private func updateReading() {
        guard case .open(let handler, let context) = phase else { return }
        handler.setReading(!backlog.withLock(\.isFull), context)
    }

    private func violation(_ reason: String) -> SessionError {
        SessionError(.webSocket, "\(url.host) violated the WebSocket protocol: \(reason).", stage: .channel)
    }

    // MARK: Closing

    func close() {
        isClosing = true
        switch phase {
        case .ended:
            break
        case .open(let handler, let context):
            handler.close(context)
        case .idle, .connecting, .upgrading:
            end(.closed(code: nil, reason: ""))
            channel?.close(promise: nil)
        }
    }

    func fail(_ error: SessionError) {
        end(.failed(error))
        channel?.close(promise: nil)
    }

    private func fail(_ error: any Error, certificate: NIOSSLCertificate?, polite: Bool = false) {
        end(.failed(ConnectFailure.error(error, host: url.host, port: url.port, certificate: certificate)))
        if !polite { channel?.close(promise: nil) }
    }

    private var logger: Logger { configuration.logger }
    private var place: String { "\(url.host):\(url.port)" }
    private var elapsed: String { "\((NIODeadline.now() - startedAt).nanoseconds / 1_000_000) ms" }

    private func log(_ end: SignallingEvent) {
        switch end {
        case .closed(let code, let reason):
            let cause = [code.map(String.init), reason.isEmpty ? nil : reason.printable(limit: 123)].compactMap(\.self)
            let by = isClosing ? "by us" : "by the peer"
            logger.info(
                "\(place): closed \(by) after \(elapsed)\(cause.isEmpty ? "" : ": \(cause.joined(separator: " "))")")
        case .failed(let error): logger.info("\(place): failed after \(elapsed): \(error.description)")
        case .opened, .text, .binary, .silent, .answered: break
        }
    }

    /// Emits the final event, once.
    private func end(_ event: SignallingEvent) {
        if case .ended = phase { return }
        phase = .ended
        timer?.cancel()
        log(event)
        onEvent(event)
    }
}

extension Double {
    /// The number without a superfluous ".0".
    fileprivate var formatted: String {
        Int(exactly: self).map(String.init) ?? String(self)
    }
}
