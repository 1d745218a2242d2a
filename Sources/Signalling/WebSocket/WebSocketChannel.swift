// The control channel over TCP, TLS and WebSocket. It knows URLs, bytes and timeouts, but no message of the protocol
// and no media.
package import DecartProtocol
package import DecartSession
import EventLoopThreads
package import Log
import MediaSecurity
import Network
import Recovery
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
        /// No connection to this machine or its link, whatever name leads there: another service has named the URL.
        package var refusesLocal = false
        package var userAgent = "gst-decart"
        /// Interval between pings. The peer is silent if no frame arrives for one interval after a ping.
        package var pingInterval = RecoveryPlan.Channel.pingInterval
        /// Timeout for the peer's part of the closing handshake.
        package var closeLimit: Duration = .milliseconds(250)
        /// Timeout for the name lookup, within the timeout of `open`.
        package var resolveLimit: Duration = .seconds(5)
        /// A connection that was made ahead, for this channel alone; it closes if it leads to another server.
        package var early: EarlyConnection?
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
        connection = Connection(url: url, configuration: configuration, onEvent: onEvent)
    }

    deinit {
        close()
    }

    package var secret: Secret? { url.secret }

    package var sessionLimit: Duration? { url.sessionLimit }

    package func open(timeout: Duration) {
        guard connection.thread.start() else {
            return SerialQueue(label: "decart-channel").async { [connection] in connection.fail(ConnectFailure.noThread)
            }
        }
        connection.thread.async { [connection] in connection.open(timeout: timeout) }
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
        connection.thread.async { [connection, self] in
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

    package func probe() { connection.thread.async { [connection] in connection.probe() } }

    package func redacting(_ text: String) -> String { url.redacting(text) }

    package func close() {
        connection.thread.async { [connection] in connection.close() }
    }
}

/// The connection, on the network thread.
// @unchecked: after init, used only on `thread`, except `handled(_:)` and the backlog in its Mutex.
private final class Connection: @unchecked Sendable {
    private enum Phase {
        case idle
        case preparing
        /// Waits for a connection that was made ahead.
        case awaiting(EarlyConnection)
        case connecting(Connector, hasTCP: Bool)
        case upgrading(UpgradeExchange, ByteStream)
        case open(FrameHandler)
        case ended
    }

    /// For a request on a connection that was made ahead, whose path may have died meanwhile. Time for two
    /// retransmissions.
    private static let acknowledgementLimit = Duration.seconds(2)

    let thread = NetworkThread.shared
    private let url: ServiceURL
    private let configuration: WebSocketChannel.Configuration
    private let onEvent: @Sendable (SignallingEvent) -> Void
    private var phase = Phase.idle
    private var timer: NetworkTimer?
    private var startedAt = monotonicTime
    private var limit = Duration.zero
    private var isClosing = false
    private var early: EarlyConnection?
    private let backlog = Mutex(Backlog())

    init(
        url: ServiceURL, configuration: WebSocketChannel.Configuration,
        onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) {
        self.url = url
        self.configuration = configuration
        self.onEvent = onEvent
        early = configuration.early
    }

    // MARK: Opening

    func open(timeout: Duration) {
        guard case .idle = phase else { return }
        phase = .preparing
        startedAt = monotonicTime
        limit = timeout
        timer = thread.later(after: timeout) { self.timedOut() }
        let trust = url.isSecure ? configuration.trust : nil
        TLSTrust.prepare(trust, on: thread, orElse: { self.fail($0) }) { self.connect($0) }
    }

    private func connect(_ tls: TLSClientContext?) {
        guard case .preparing = phase else { return }
        if let early = early.take() {
            if early.place == ServerPlace(url) { return connect(tls, over: early) }
            early.abandon()
        }
        let destination = configuration.route.destination(
            url.host, url.port, limit: limit, resolveLimit: configuration.resolveLimit,
            refusesLocal: configuration.refusesLocal)
        let connector = Connector(to: destination, tls: tls, on: thread, onTCP: { self.connectedTCP() }) { result in
            switch result {
            case .success(let stream): self.upgrade(stream)
            case .failure(let error): self.fail(error)
            }
        }
        phase = .connecting(connector, hasTCP: false)
    }

    /// Connects again if the server has closed the connection meanwhile, or closes it without an answer, or does not get
    /// the request.
    private func connect(_ tls: TLSClientContext?, over early: EarlyConnection) {
        phase = .awaiting(early)
        early.take { stream in
            guard case .awaiting = self.phase else { return stream?.close() ?? () }
            let connectAnew = {
                self.phase = .preparing
                self.connect(tls)
            }
            guard let stream else { return connectAnew() }
            // The file of roots may have changed.
            guard early.rootsHash == tls?.rootsHash else {
                stream.close()
                return connectAnew()
            }
            self.logger.info("\(self.place): takes the connection made ahead, after \(self.elapsed)")
            stream.limitAcknowledgement(to: Self.acknowledgementLimit)
            self.upgrade(stream, orElse: connectAnew)
        }
    }

    private func connectedTCP() {
        guard case .connecting(let connector, _) = phase else { return }
        phase = .connecting(connector, hasTCP: true)
        let way = configuration.route.proxy(to: url.host).map { " to the HTTP proxy \($0.place)" } ?? ""
        logger.info("\(place): TCP connected\(way) after \(elapsed)")
    }

    /// - Parameter connectAnew: called in place of a failure by which the server has not answered this request.
    private func upgrade(_ stream: ByteStream, orElse connectAnew: (() -> Void)? = nil) {
        // The owner may have given up, and the server must not open a session for it.
        guard isConnecting else { return stream.close() }
        let requestedAt = monotonicTime
        if url.isSecure { logger.info("\(place): TLS connected after \(elapsed)") }
        let limits = WebSocketLimits(
            messageSize: configuration.maximumMessageSize, fragments: FrameHandler.maximumFragments)
        let exchange = UpgradeExchange(url, over: stream, userAgent: configuration.userAgent, limits: limits) {
            outcome in
            switch outcome {
            case .open(let webSocket): self.opened(webSocket, requestedAt)
            // RFC 9110 §15.5.9: 408 ends an idle connection, and may have crossed the request.
            case .refused(let error) where connectAnew == nil || error.httpStatus != 408: self.fail(error)
            case .failed(let error) where connectAnew == nil: self.failUpgrade(error)
            case .refused, .failed:
                stream.close()
                connectAnew?()
            }
        }
        // The request may have failed at once.
        if isConnecting { phase = .upgrading(exchange, stream) }
    }

    private var isConnecting: Bool {
        switch phase {
        case .awaiting, .connecting: true
        case .idle, .preparing, .upgrading, .open, .ended: false
        }
    }

    private func opened(_ webSocket: WebSocketConnection, _ requestedAt: Duration) {
        guard case .upgrading(_, let stream) = phase else { return webSocket.close() }
        stream.limitAcknowledgement(to: .zero)
        timer?.cancel()
        phase = .open(FrameHandler(configuration, over: webSocket) { [weak self] event in self?.frames(event) })
        logger.info("\(place): the WebSocket is open after \(elapsed)")
        onEvent(.opened(transport: requestedAt - startedAt, upgrade: monotonicTime - requestedAt))
    }

    private func timedOut() {
        let waiting: String
        switch phase {
        case .upgrading: waiting = "the WebSocket upgrade"
        case .connecting(let connector, _) where connector.awaitsProxy: return fail(.proxy(.silent))
        case .connecting(_, hasTCP: true) where url.isSecure: waiting = "the TLS handshake"
        default: waiting = "the connection"
        }
        let seconds = limit / .seconds(1)
        fail(
            SessionError(
                .connectionTimeout,
                "\(url.host):\(url.port) did not answer within \(seconds.brief) s (waiting for \(waiting)). "
                    + "Check the network and the service.",
                stage: waiting == "the WebSocket upgrade" ? .upgrade : .connect))
    }

    // MARK: Messages

    func send(_ message: [UInt8], dequeued: @escaping @Sendable () -> Void) {
        guard case .open(let handler) = phase else { return dequeued() }
        logger.log("\(place): sends a message of \(message.count) bytes")
        handler.send(message, completion: dequeued)
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
            end(.failed(explain(error)))
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
        guard case .open(let handler) = phase else { return }
        handler.probe()
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
        thread.async { self.updateReading() }
    }

    /// While reading is paused, messages wait in the socket buffers and then at the peer.
    private func updateReading() {
        guard case .open(let handler) = phase else { return }
        handler.setReading(!backlog.withLock(\.isFull))
    }

    private func violation(_ reason: String) -> SessionError {
        SessionError(.webSocket, "\(url.host) violated the WebSocket protocol: \(reason).", stage: .channel)
    }

    // MARK: Closing

    func close() {
        isClosing = true
        switch phase {
        case .ended: break
        case .open(let handler): handler.close()
        case .idle, .preparing, .awaiting, .connecting, .upgrading: end(.closed(code: nil, reason: ""))
        }
    }

    func fail(_ error: SessionError) {
        if case .open(let handler) = phase { handler.abandon() }
        end(.failed(error))
    }

    private func fail(_ error: NetworkError) { end(.failed(explain(error))) }

    private func failUpgrade(_ error: NetworkError) {
        let cause = url.isSecure ? nil : ConnectFailure.noHTTP(error, host: url.host, port: url.port)
        if let cause { fail(cause) } else { fail(error) }
    }

    private func explain(_ error: NetworkError) -> SessionError {
        ConnectFailure.error(error, host: url.host, port: url.port, proxy: configuration.route.proxy(to: url.host))
    }

    private var logger: Logger { configuration.logger }
    private var place: String { "\(url.host):\(url.port)" }
    private var elapsed: String { "\(Int((monotonicTime - startedAt) / .milliseconds(1))) ms" }

    private func log(_ end: SignallingEvent) {
        switch end {
        case .closed(let code, _):
            // The peer's reason is in the session's log, which knows the prompts that it may repeat.
            let by = isClosing ? "by us" : "by the peer"
            logger.info("\(place): closed \(by) after \(elapsed)\(code.map { ": \($0)" } ?? "")")
        case .failed(let error): logger.info("\(place): failed after \(elapsed): \(error.description)")
        case .opened, .text, .binary, .silent, .answered: break
        }
    }

    /// Emits the final event, once. An open WebSocket ends itself, after its closing handshake.
    private func end(_ event: SignallingEvent) {
        switch phase {
        case .ended: return
        case .awaiting(let early): early.abandon()
        case .connecting(let connector, _): connector.cancel()
        case .upgrading(_, let stream): stream.close()
        case .idle, .preparing, .open: break
        }
        phase = .ended
        timer?.cancel()
        log(event)
        onEvent(event)
    }
}
