// An open WebSocket: converts between frames and messages, checks liveness and performs the closing handshake. Runs on
// its event loop.
import DecartSession
import NIOCore
import NIOWebSocket

final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    /// Events for the owning channel. `closed`, `violated` and `failed` are final.
    enum Event {
        case text([UInt8])
        case binary([UInt8])
        case closed(code: Int?, reason: String)
        case violated(reason: String)
        case failed(any Error)
        /// No frame has arrived for a whole interval after a ping. Repeated after each further interval.
        case silent
        /// A frame arrived after `probe`.
        case answered
    }

    private enum Phase { case open, closing, ended }

    private let configuration: WebSocketChannel.Configuration
    private let onEvent: (Event) -> Void
    private var assembler: MessageAssembler
    private let startedAt = NIODeadline.now()
    private var rate = MessageRate()
    private var phase = Phase.open
    private var pingTimer: Scheduled<Void>?
    private var pingSentAt: NIODeadline?
    private var hasReceivedSincePing = true
    private var isProbing = false
    private var isReading = true
    private var isPonging = false
    private var nextPong: ByteBuffer?

    init(_ configuration: WebSocketChannel.Configuration, onEvent: @escaping (Event) -> Void) {
        self.configuration = configuration
        self.onEvent = onEvent
        assembler = MessageAssembler(maximumMessageSize: configuration.maximumMessageSize)
    }

    private var pingInterval: TimeAmount { TimeAmount(configuration.pingInterval) }

    func handlerAdded(context: ChannelHandlerContext) {
        schedulePing(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        pingTimer?.cancel()
    }

    // MARK: Receiving

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        hasReceivedSincePing = true
        guard phase != .ended else { return }
        if isProbing {
            isProbing = false
            onEvent(.answered)
        }
        switch assembler.receive(unwrapInboundIn(data)) {
        case .none:
            break
        // Ignore messages of the other kind.
        case .text(let bytes):
            guard phase == .open, isWithinRate(context) else { return }
            if configuration.messages == .text { onEvent(.text(bytes)) }
        case .binary(let bytes):
            guard phase == .open, isWithinRate(context) else { return }
            if configuration.messages == .binary { onEvent(.binary(bytes)) }
        case .ping(let payload):
            pong(context, payload)
        case .close(let code, let reason):
            // §5.5.1: echo the close frame; the server then closes the socket first.
            if phase == .open { writeClose(context, code.map { WebSocketErrorCode(codeNumber: $0) }) }
            end(context, .closed(code: code, reason: reason))
        case .violation(let code, let reason):
            violate(context, code, reason)
        }
    }

    /// Ends the connection if the peer sends more messages than any service does.
    private func isWithinRate(_ context: ChannelHandlerContext) -> Bool {
        guard !rate.allows(at: Duration(NIODeadline.now() - startedAt)) else { return true }
        violate(
            context, .policyViolation,
            "more than \(MessageRate.most) messages in \(MessageRate.window.components.seconds) s")
        return false
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard phase != .ended else { return }
        switch error as? NIOWebSocketError {
        case .invalidFrameLength:
            violate(context, .messageTooLarge, "a frame is larger than \(configuration.maximumMessageSize >> 10) KiB")
        case .some: violate(context, .protocolError, "a control frame is fragmented or too long")
        case .none: end(context, .failed(error))
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        pingTimer?.cancel()
        if phase != .ended {
            phase = .ended
            onEvent(.closed(code: nil, reason: "without a close frame"))
        }
        context.fireChannelInactive()
    }

    private func violate(_ context: ChannelHandlerContext, _ code: WebSocketErrorCode, _ reason: String) {
        if phase == .open { writeClose(context, code) }
        end(context, .violated(reason: reason))
    }

    /// Pauses or resumes reading. The peer cannot count as dead while reading is paused, because no frame can arrive.
    func setReading(_ isReading: Bool, _ context: ChannelHandlerContext) {
        self.isReading = isReading
        hasReceivedSincePing = true
        context.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
    }

    // MARK: Sending

    /// Sends a message. The promise succeeds after the system has accepted the bytes.
    func send(_ context: ChannelHandlerContext, _ bytes: [UInt8], promise: EventLoopPromise<Void>?) {
        guard phase == .open else {
            promise?.fail(ChannelError.alreadyClosed)
            return
        }
        let opcode: WebSocketOpcode = configuration.messages == .text ? .text : .binary
        write(context, opcode, context.channel.allocator.buffer(bytes: bytes), promise)
    }

    /// Starts the closing handshake, bounded by a timeout.
    func close(_ context: ChannelHandlerContext) {
        guard phase == .open else { return }
        phase = .closing
        writeClose(context, .normalClosure)
        closeSoon(context)
    }

    /// §5.5.3: only the last of several pings needs a response, so at most one pong is in flight.
    private func pong(_ context: ChannelHandlerContext, _ payload: ByteBuffer) {
        nextPong = payload
        guard !isPonging, phase == .open else { return }
        isPonging = true
        writeNextPong(context)
    }

    private func writeNextPong(_ context: ChannelHandlerContext) {
        guard let payload = nextPong, phase == .open else {
            isPonging = false
            return
        }
        nextPong = nil
        let promise = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        // Wait for one turn of the event loop, so that a flood of pings in one read gets a single pong.
        promise.futureResult.whenComplete { _ in
            bound.eventLoop.execute {
                let (handler, context) = bound.value
                handler.writeNextPong(context)
            }
        }
        write(context, .pong, payload, promise)
    }

    private func writeClose(_ context: ChannelHandlerContext, _ code: WebSocketErrorCode?) {
        var data = context.channel.allocator.buffer(capacity: 2)
        if let code { data.write(webSocketErrorCode: code) }
        write(context, .connectionClose, data)
    }

    private func write(
        _ context: ChannelHandlerContext, _ opcode: WebSocketOpcode, _ data: ByteBuffer,
        _ promise: EventLoopPromise<Void>? = nil
    ) {
        let frame = WebSocketFrame(fin: true, opcode: opcode, maskKey: .random(), data: data)
        context.writeAndFlush(wrapOutboundOut(frame), promise: promise)
    }

    // MARK: Closing

    private func end(_ context: ChannelHandlerContext, _ event: Event) {
        guard phase != .ended else { return }
        phase = .ended
        pingTimer?.cancel()
        onEvent(event)
        closeSoon(context)
    }

    /// Closes the socket after a delay, so that written frames can be sent and the peer can close first.
    private func closeSoon(_ context: ChannelHandlerContext) {
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        let timer = context.eventLoop.scheduleTask(in: TimeAmount(configuration.closeLimit)) {
            bound.value.close(promise: nil)
        }
        context.channel.closeFuture.whenComplete { _ in timer.cancel() }
    }

    // MARK: Liveness

    private func schedulePing(_ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        pingTimer = context.eventLoop.scheduleTask(in: pingInterval) {
            let (handler, context) = bound.value
            handler.tick(context)
        }
    }

    private func tick(_ context: ChannelHandlerContext) {
        guard phase == .open else { return }
        let now = NIODeadline.now()
        // If this process was suspended, the pong may still be unread in the socket: ping again.
        let isLate = pingSentAt.map { now - $0 > pingInterval * 2 } ?? false
        if !hasReceivedSincePing, !isLate, isReading { onEvent(.silent) }
        // The owner may have closed the channel.
        guard phase == .open else { return }
        hasReceivedSincePing = false
        pingSentAt = now
        ping(context)
        schedulePing(context)
    }

    private func ping(_ context: ChannelHandlerContext) {
        write(context, .ping, context.channel.allocator.buffer(capacity: 0))
    }

    func probe(_ context: ChannelHandlerContext) {
        guard phase == .open else { return }
        isProbing = true
        ping(context)
    }
}
