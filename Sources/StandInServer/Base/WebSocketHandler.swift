import NIOCore
import NIOWebSocket

/// The server's end of a WebSocket: a control channel, a room's signalling, or a video of the page.
protocol WebSocketHandler: ChannelInboundHandler where InboundIn == WebSocketFrame, OutboundOut == WebSocketFrame {
    /// The close frame was sent, or the connection was reset: nothing more is read or written.
    var isClosing: Bool { get set }
    /// The `mute` fault: nothing is written any more.
    var isMute: Bool { get }
    /// The `no_pong` fault.
    var ignoresPings: Bool { get }
    /// - Parameter opcode: text or binary.
    func receive(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext)
    func willClose(code: UInt16?)
    func receivedClose(code: UInt16?)
    func log(_ text: String)
}

extension WebSocketHandler {
    var isMute: Bool { false }
    var ignoresPings: Bool { false }
    func willClose(code: UInt16?) {}
    func receivedClose(code: UInt16?) {}

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing else { return }
        let frame = unwrapInboundIn(data)
        var payload = frame.unmaskedData
        switch frame.opcode {
        case .text, .binary: receive(frame.opcode, payload, context)
        case .ping where !ignoresPings: write(.pong, payload, context)
        case .connectionClose:
            receivedClose(code: payload.getInteger(at: payload.readerIndex))
            // RFC 6455 §5.5.1: echo the status code.
            close(payload.readSlice(length: min(2, payload.readableBytes)) ?? ByteBuffer(), context)
        default: break
        }
    }

    func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext) {
        guard !isClosing, !isMute, context.channel.isActive else { return }
        // Disconnect a client that does not read, instead of buffering without limit.
        guard context.channel.isWritable else {
            log("the client does not read")
            return context.close(promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, data: data)), promise: nil)
    }

    func close(_ code: WebSocketErrorCode, reason: String = "", _ context: ChannelHandlerContext) {
        var data = context.channel.allocator.buffer(capacity: 2 + reason.utf8.count)
        data.write(webSocketErrorCode: code)
        data.writeString(reason)
        close(data, context)
    }

    private func close(_ data: ByteBuffer, _ context: ChannelHandlerContext) {
        if !isClosing, !isMute { willClose(code: data.getInteger(at: data.readerIndex)) }
        write(.connectionClose, data, context)
        isClosing = true
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Do not log the error's own text: it may quote what the peer sent.
        if let code = FrameRules.closeCode(for: error) {
            close(code, context)
        } else {
            context.close(promise: nil)
        }
    }
}
