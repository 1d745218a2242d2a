import NIOCore
import NIOWebSocket

/// Checks what NIO's WebSocket decoder leaves to its users (RFC 6455 §5.1, §5.2): clients mask every frame, reserved
/// bits are zero without an extension, reserved opcodes are not used. Drops all frames after the first violation.
final class FrameRules: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = WebSocketFrame

    struct Breach: Error {}

    private var isBroken = false

    /// Returns nil if the connection itself failed and a close frame cannot be delivered.
    static func closeCode(for error: any Error) -> WebSocketErrorCode? {
        switch error {
        case is Breach: .protocolError
        case NIOWebSocketFrameAggregator.Error.accumulatedFrameSizeIsTooLarge: .messageTooLarge
        case is NIOWebSocketFrameAggregator.Error: .protocolError
        default: nil
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isBroken else { return }
        let frame = unwrapInboundIn(data)
        if isAllowed(frame) {
            context.fireChannelRead(data)
        } else {
            isBroken = true
            context.fireErrorCaught(Breach())
        }
    }

    private func isAllowed(_ frame: WebSocketFrame) -> Bool {
        guard frame.maskKey != nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else { return false }
        switch frame.opcode {
        case .continuation, .text, .binary, .connectionClose, .ping, .pong: return true
        default: return false
        }
    }
}
