// Assembles received frames to messages (RFC 6455, client side) and makes the checks that NIO's frame decoder leaves
// out: reserved bits, opcodes, masks, order, number and total size of fragments, UTF-8, close codes. A value: each
// frame yields one outcome.
import NIOCore
import NIOWebSocket

struct MessageAssembler {
    static let maximumFragments = 64

    enum Outcome: Equatable {
        /// The frame needs no action, or its message is incomplete.
        case none
        case text([UInt8])
        case binary([UInt8])
        case ping(ByteBuffer)
        case close(code: Int?, reason: String)
        /// The peer broke the protocol: the close code to send (§7.4.1) and the reason.
        case violation(code: WebSocketErrorCode, reason: String)
    }

    private let maximumMessageSize: Int
    private var isText = false
    private var fragments = 0
    private var bytes: [UInt8] = []

    init(maximumMessageSize: Int) { self.maximumMessageSize = maximumMessageSize }

    mutating func receive(_ frame: WebSocketFrame) -> Outcome {
        // §5.2: the reserved bits belong to extensions, and none is negotiated.
        guard !frame.rsv1, !frame.rsv2, !frame.rsv3 else { return protocolError("reserved bits are set") }
        // §5.1: a server must not mask its frames.
        guard frame.maskKey == nil else { return protocolError("a frame of the server is masked") }
        switch frame.opcode {
        case .text, .binary:
            guard fragments == 0 else {
                return protocolError("a new message before the last fragment of the previous one")
            }
            isText = frame.opcode == .text
            return append(frame)
        case .continuation:
            guard fragments > 0 else { return protocolError("a continuation frame without a first fragment") }
            return append(frame)
        case .ping, .pong, .connectionClose:
            return control(frame)
        default:
            return protocolError("unknown opcode")
        }
    }

    private mutating func append(_ frame: WebSocketFrame) -> Outcome {
        fragments += 1
        guard fragments <= MessageAssembler.maximumFragments else {
            return .violation(code: .messageTooLarge, reason: "a message has too many fragments")
        }
        let data = frame.unmaskedData
        guard data.readableBytes <= maximumMessageSize - bytes.count else {
            return .violation(
                code: .messageTooLarge, reason: "a message is larger than \(maximumMessageSize >> 10) KiB")
        }
        bytes += data.readableBytesView
        guard frame.fin else { return .none }
        let message = exchange(&bytes, with: [])
        fragments = 0
        guard isText else { return .binary(message) }
        guard String(validating: message, as: UTF8.self) != nil else {
            return .violation(code: .dataInconsistentWithMessage, reason: "a text message is not UTF-8")
        }
        return .text(message)
    }

    private func control(_ frame: WebSocketFrame) -> Outcome {
        // §5.5; NIO's decoder checks this too.
        guard frame.fin, frame.length <= 125 else { return protocolError("a control frame is fragmented or too long") }
        switch frame.opcode {
        case .ping: return .ping(frame.unmaskedData)
        case .connectionClose: return close(frame.unmaskedData)
        default: return .none
        }
    }

    private func close(_ data: ByteBuffer) -> Outcome {
        var data = data
        guard data.readableBytes > 0 else { return .close(code: nil, reason: "") }
        guard let code = data.readInteger(as: UInt16.self) else { return protocolError("a close code is cut off") }
        // §7.4: only these codes are allowed in a close frame.
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: break
        default: return protocolError("an invalid close code")
        }
        guard let reason = String(validating: data.readableBytesView, as: UTF8.self) else {
            return .violation(code: .dataInconsistentWithMessage, reason: "a close reason is not UTF-8")
        }
        return .close(code: Int(code), reason: reason)
    }

    private func protocolError(_ reason: String) -> Outcome {
        .violation(code: .protocolError, reason: reason)
    }
}
