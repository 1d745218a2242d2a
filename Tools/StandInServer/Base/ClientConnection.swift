// One accepted connection until its end: the request, and its answer or the WebSocket that it becomes. It knows no path and
// no message; who accepted it decides on the request, and a `WebSocketHandler` serves the WebSocket.
import EventLoopThreads
import Network

// @unchecked: constant, or used on `thread` only.
final class ClientConnection: @unchecked Sendable {
    /// The body is nil if it is too large.
    typealias RequestHandler = (ClientConnection, HTTPRequestHead, _ body: [UInt8]?) -> Void

    /// Time for the request, and for the answer to it.
    private static let requestTimeout = Duration.seconds(10)
    private static let maximumBodySize = 64 << 10
    private static let limits = {
        var limits = HTTPLimits()
        // A room's join request is in its URL.
        limits.headSize = 80 << 10
        return limits
    }()
    private static let pingInterval = Duration.seconds(10)
    /// Limits how long a client that vanished without a FIN occupies its session.
    private static let idleTimeout = Duration.seconds(30)
    /// Time for the peer to end its direction after a close frame.
    private static let closeTimeout = HTTPServerConnection.closeLimit

    /// nil: the connection has ended already.
    let localAddress: SocketAddress?
    private let stream: ByteStream
    private var http: HTTPServerConnection?
    private var onRequest: RequestHandler?
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var webSocket: WebSocketConnection?
    private var handler: (any WebSocketHandler)?
    private var deadline: NetworkTimer?
    private let timers: ConnectionTimers
    private var receivedAt = monotonicTime
    private var onEnd: [() -> Void] = []
    /// The answer or the close frame was sent, or the connection has ended: nothing more is read or written.
    private(set) var isClosing = false
    /// The `mute` fault: no frame is written any more.
    var isMute = false
    /// The `no_pong` fault.
    var ignoresPings = false

    /// Starts to read. Call it on the stream's thread.
    /// - Parameter onRequest: called once at most; it may answer later.
    init(_ stream: ByteStream, onRequest: @escaping RequestHandler) {
        self.stream = stream
        self.onRequest = onRequest
        localAddress = stream.localAddress
        timers = ConnectionTimers(on: stream.thread)
        // `send` disconnects a client with more unread output than this.
        stream.marks = (low: 1 << 18, high: 1 << 20)
        deadline = thread.later(after: Self.requestTimeout) { self.close() }
        http = HTTPServerConnection(stream, limits: Self.limits) { self.received($0) }
    }

    var thread: NetworkThread { stream.thread }
    var isSecure: Bool { stream.isSecure }
    var isWritable: Bool { stream.isWritable }

    /// Calls `body` after the end of the connection.
    func whenEnded(_ body: @escaping () -> Void) { onEnd.append(body) }

    /// Any thread.
    func notify(_ notice: any Sendable) {
        thread.async { [self] in
            guard !isClosing else { return }
            if let handler { handler.receive(notice: notice) } else if notice is ShutdownNotice { close() }
        }
    }

    // MARK: The request

    private func received(_ event: HTTPServerConnection.Event) {
        switch event {
        case .head(let head): self.head = head
        case .body(let part):
            guard body.count + part.count <= Self.maximumBodySize else { return decide(nil) }
            body += part
        case .end: decide(body)
        case .ended: end {}
        }
    }

    private func decide(_ body: [UInt8]?) {
        guard let head else { return }
        onRequest.take()?(self, head, body)
    }

    /// The answer takes as long as it takes.
    func cancelDeadline() { deadline?.cancel() }

    func answer(_ answer: HTTPAnswer) {
        end { http?.answer(answer.head, body: answer.bytes) }
    }

    /// Writes the same bytes repeatedly in place of an answer, as fast as the peer reads them, until it disconnects.
    func answerEndlessly(_ start: String, _ repeated: String) {
        cancelDeadline()
        _ = http?.detach()
        stream.onEvent = { if case .ended = $0 { self.end {} } }
        stream.write(start.utf8)
        writeEndlessly(Array(repeated.utf8))
    }

    /// Accepts the upgrade. The handler is to follow in this turn of the loop.
    func upgrade(adding fields: HTTPFields = [:], messageSize: Int, fragments: Int) {
        deadline?.cancel()
        webSocket = http?.upgrade(
            adding: fields, limits: WebSocketLimits(messageSize: messageSize, fragments: fragments))
        http = nil
    }

    func serve(by handler: any WebSocketHandler) {
        guard let webSocket else { return }
        self.handler = handler
        webSocket.onEvent = { self.received($0) }
        webSocket.start()
        handler.opened()
        // The response to the upgrade may have found the connection broken.
        if !stream.isOpen { end {} }
    }

    // MARK: The WebSocket

    private func received(_ event: WebSocketConnection.Event) {
        // A close may come in the middle of what was received together.
        guard !isClosing else { return }
        receivedAt = monotonicTime
        switch event {
        case .message(.text(let bytes)): handler?.receive(text: bytes)
        case .message(.binary(let bytes)): handler?.receive(binary: bytes)
        case .message(.ping(let payload)): if !ignoresPings { send(.pong, payload) }
        case .message(.pong), .writable: break
        case .message(.close(let code, _)):
            handler?.receivedClose(code: code)
            // RFC 6455 §5.5.1: echo the status code.
            close(code: code)
        case .message(.violation(let code, _)): close(code: code)
        case .ended: end {}
        }
    }

    func send(_ opcode: WebSocketOpcode, _ payload: [UInt8] = []) {
        guard !isClosing, !isMute else { return }
        // Disconnect a client that does not read, instead of buffering without limit.
        guard isWritable else {
            handler?.log("the client does not read")
            return close()
        }
        webSocket?.send(opcode, payload)
    }

    /// Sends pings, and closes the connection if nothing comes, not even a pong.
    func keepAlive() {
        timers.every(Self.pingInterval) { [self] in send(.ping) }
        awaitFrame(Self.idleTimeout)
    }

    private func awaitFrame(_ time: Duration) {
        timers.after(time) { [self] in
            let rest = receivedAt + Self.idleTimeout - monotonicTime
            guard rest <= .zero else { return awaitFrame(rest) }
            handler?.log("the client sent nothing, not even a pong")
            close()
        }
    }

    /// Writes bytes that need not be a frame.
    func write(raw bytes: [UInt8]) {
        if !isClosing, !isMute { stream.write(bytes) }
    }

    /// Writes the same bytes repeatedly, as fast as the peer reads them, until it disconnects.
    func writeEndlessly(_ bytes: [UInt8]) {
        guard !isClosing, !isMute else { return }
        // The loop serves other connections first.
        stream.write(bytes) { [self] in thread.later { self.writeEndlessly(bytes) } }
    }

    /// Sends one byte each interval from now on. TLS that does so already continues as it is.
    func drip(_ interval: Duration) {
        if stream.pace == nil { stream.pace = ByteStream.Pace(interval: interval, isBelowTLS: false) }
    }

    // MARK: The end

    /// Sends a close frame. Nothing is received any more.
    func close(code: UInt16?, reason: String = "") {
        guard !isClosing, !isMute else { return close() }
        handler?.willClose(code: code)
        webSocket?.sendClose(code: code, reason: reason)
        end { webSocket?.finish(within: Self.closeTimeout) }
    }

    /// Closes at once.
    func close() { end { stream.close() } }

    /// Resets the connection, as a crashed process or a firewall does.
    func reset() { end { stream.reset() } }

    private func end(_ close: () -> Void) {
        guard !isClosing else { return }
        isClosing = true
        deadline?.cancel()
        timers.cancelAll()
        close()
        // The caller may be in the middle of its steps.
        thread.later { [self] in
            handler?.ended()
            for body in onEnd { body() }
            (onEnd, onRequest, handler, http, webSocket) = ([], nil, nil, nil, nil)
        }
    }
}
