import NIOCore
import NIOWebSocket

/// The server's end of a WebSocket: a control channel, a room's signalling, or a video of the page.
protocol WebSocketHandler: ChannelInboundHandler where InboundIn == WebSocketFrame, OutboundOut == WebSocketFrame {
    /// The close frame was sent, or the connection was reset: nothing more is read or written.
    var isClosing: Bool { get set }
    /// The `mute` fault: nothing is written any more.
    var isMute: Bool { get }
    func willClose(code: UInt16?)
    func log(_ text: String)
}

extension WebSocketHandler {
    var isMute: Bool { false }
    func willClose(code: UInt16?) {}

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

    /// Answers the client's close frame: RFC 6455 §5.5.1, echo the status code.
    func close(echoing frame: WebSocketFrame, _ context: ChannelHandlerContext) {
        var data = frame.unmaskedData
        close(data.readSlice(length: min(2, data.readableBytes)) ?? ByteBuffer(), context)
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
