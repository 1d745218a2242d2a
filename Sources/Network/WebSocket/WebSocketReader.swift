package enum WebSocketEvent: Sendable, Equatable {
    /// Well-formed UTF-8.
    case text([UInt8])
    case binary([UInt8])
    case ping([UInt8])
    case pong([UInt8])
    /// The last event: what follows a close frame is ignored.
    case close(code: UInt16?, reason: String)
    /// The peer broke the protocol: the close code to send (RFC 6455 §7.4.1), and the reason in a few words. The last event.
    case violation(code: UInt16, reason: String)
}

/// Beyond them, the reader reports a violation with code 1009.
package struct WebSocketLimits: Sendable {
    /// Bytes of a message, all its fragments together.
    package var messageSize: Int
    /// Bytes of the payload of one frame.
    package var frameSize: Int
    /// Frames of a message.
    package var fragments: Int

    /// - Parameter frameSize: by default, `messageSize`.
    package init(messageSize: Int, frameSize: Int? = nil, fragments: Int) {
        self.messageSize = messageSize
        self.frameSize = frameSize ?? messageSize
        self.fragments = fragments
    }
}

/// Reads frames and assembles messages (RFC 6455 §5). It checks a header as soon as it is complete, and UTF-8 as its bytes
/// arrive, so that it waits for nothing that it would refuse; and it holds no more memory than what has arrived needs.
package struct WebSocketReader: Sendable {
    private struct Violation: Error {
        let code: UInt16
        let reason: String

        static func protocolError(_ reason: String) -> Violation { Violation(code: 1002, reason: reason) }
        static func inconsistent(_ reason: String) -> Violation { Violation(code: 1007, reason: reason) }
        static func tooLarge(_ reason: String) -> Violation { Violation(code: 1009, reason: reason) }
    }

    private struct Header {
        let opcode: WebSocketOpcode
        let isFinal: Bool
        let mask: WebSocketMask?
        /// Bytes of the header itself.
        let size: Int
        /// Bytes of the payload.
        let length: Int
    }

    /// A data frame whose payload arrives.
    private struct Frame {
        var remaining: Int
        let isFinal: Bool
        var mask: WebSocketMask?
    }

    private struct Message {
        let isText: Bool
        var fragments = 0
        var bytes: [UInt8] = []
        var check = UTF8Check()

        /// Returns false if the message should be text and is not.
        mutating func append(_ part: ArraySlice<UInt8>, _ mask: inout WebSocketMask?) -> Bool {
            let start = bytes.count
            bytes += part
            return bytes.withUnsafeMutableBytes { [isText] bytes in
                let part = UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
                mask?.apply(to: part)
                return !isText || check.accepts(UnsafeRawBufferPointer(part))
            }
        }
    }

    /// Our own role: only a client masks its frames.
    private let role: WebSocketRole
    private let limits: WebSocketLimits
    private var input: ArraySlice<UInt8> = []
    private var frame: Frame?
    private var message: Message?
    private var hasEnded = false
    /// A violation was found.
    package private(set) var hasFailed = false

    package init(role: WebSocketRole, limits: WebSocketLimits) {
        self.role = role
        self.limits = limits
    }

    package mutating func append(_ bytes: ArraySlice<UInt8>) {
        guard !hasEnded else { return }
        if input.isEmpty { input = bytes } else { input += bytes }
    }

    /// Returns nil if more bytes are needed, and always after the last event.
    package mutating func next() -> WebSocketEvent? {
        guard !hasEnded else { return nil }
        do throws(Violation) {
            let event = try read()
            if case .close = event { end() }
            return event
        } catch {
            hasFailed = true
            end()
            return .violation(code: error.code, reason: error.reason)
        }
    }

    private mutating func end() {
        hasEnded = true
        (input, frame, message) = ([], nil, nil)
    }

    private mutating func read() throws(Violation) -> WebSocketEvent? {
        while true {
            if frame == nil {
                guard let header = try header() else { return nil }
                if header.opcode.isControl {
                    guard input.count - header.size >= header.length else { return nil }
                    _ = take(header.size)
                    return try control(header, Array(take(header.length)))
                }
                _ = take(header.size)
                begin(header)
            }
            guard let isFinal = try receivePayload() else { return nil }
            if isFinal { return try finish() }
        }
    }

    // MARK: Headers

    private func header() throws(Violation) -> Header? {
        guard input.count >= 2 else { return nil }
        let (first, second) = (input[input.startIndex], input[input.startIndex + 1])
        let isFinal = first & 0x80 != 0
        // The reserved bits belong to extensions, and none is negotiated.
        guard first & 0x70 == 0 else { throw .protocolError("reserved bits are set") }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else { throw .protocolError("unknown opcode") }
        // §5.1: a client masks all frames, a server none.
        let isMasked = second & 0x80 != 0
        guard isMasked == (role == .server) else {
            throw .protocolError(isMasked ? "a frame of the server is masked" : "a frame of the client is not masked")
        }
        let length = second & 0x7F
        if opcode.isControl {
            guard isFinal, length <= WebSocketFrame.maximumControlPayload else {
                throw .protocolError("a control frame is fragmented or too long")
            }
        } else {
            try checkOrder(opcode)
        }
        return try header(opcode, isFinal, isMasked, length)
    }

    private func checkOrder(_ opcode: WebSocketOpcode) throws(Violation) {
        if opcode == .continuation {
            guard message != nil else { throw .protocolError("a continuation frame without a first fragment") }
        } else if message != nil {
            throw .protocolError("a new message before the last fragment of the previous one")
        }
        guard message?.fragments ?? 0 < limits.fragments else {
            throw .tooLarge("a message has too many fragments")
        }
    }

    private func header(
        _ opcode: WebSocketOpcode, _ isFinal: Bool, _ isMasked: Bool, _ short: UInt8
    ) throws(Violation) -> Header? {
        var rest = input.dropFirst(2)
        var length = UInt64(short)
        if short > 125 {
            let size = short == 126 ? 2 : 8
            guard rest.count >= size else { return nil }
            length = Self.number(rest.prefix(size))
            rest = rest.dropFirst(size)
            // §5.2: the most significant bit must be 0, and the minimal number of bytes must be used.
            guard length >> 63 == 0 else { throw .protocolError("the length of a frame is invalid") }
            guard length > (size == 2 ? 125 : 0xFFFF) else {
                throw .protocolError("the length of a frame is not in its shortest form")
            }
        }
        if !opcode.isControl { try checkLength(length) }
        var mask: WebSocketMask?
        if isMasked {
            guard rest.count >= 4 else { return nil }
            mask = WebSocketMask(UInt32(truncatingIfNeeded: Self.number(rest.prefix(4))))
            rest = rest.dropFirst(4)
        }
        return Header(
            opcode: opcode, isFinal: isFinal, mask: mask, size: input.count - rest.count, length: Int(length))
    }

    private func checkLength(_ length: UInt64) throws(Violation) {
        guard length <= limits.frameSize else {
            throw .tooLarge("a frame is larger than \(limits.frameSize >> 10) KiB")
        }
        guard length <= limits.messageSize - (message?.bytes.count ?? 0) else {
            throw .tooLarge("a message is larger than \(limits.messageSize >> 10) KiB")
        }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private mutating func take(_ count: Int) -> ArraySlice<UInt8> {
        let bytes = input.prefix(count)
        // An empty slice would still hold its array.
        input = count < input.count ? input.dropFirst(count) : []
        return bytes
    }

    // MARK: Messages

    private mutating func begin(_ header: Header) {
        if header.opcode != .continuation { message = Message(isText: header.opcode == .text) }
        message?.fragments += 1
        frame = Frame(remaining: header.length, isFinal: header.isFinal, mask: header.mask)
    }

    /// Returns nil if the payload is not complete, and otherwise whether the message is.
    private mutating func receivePayload() throws(Violation) -> Bool? {
        guard var frame else { return nil }
        let part = take(min(frame.remaining, input.count))
        frame.remaining -= part.count
        let isValid = message?.append(part, &frame.mask) ?? false
        guard isValid else { throw .inconsistent("a text message is not UTF-8") }
        let isComplete = frame.remaining == 0
        self.frame = isComplete ? nil : frame
        return isComplete ? frame.isFinal : nil
    }

    private mutating func finish() throws(Violation) -> WebSocketEvent? {
        guard let message = exchange(&message, with: nil) else { return nil }
        guard message.isText else { return .binary(message.bytes) }
        guard message.check.isComplete else { throw .inconsistent("a text message is not UTF-8") }
        return .text(message.bytes)
    }

    // MARK: Control frames

    private func control(_ header: Header, _ payload: [UInt8]) throws(Violation) -> WebSocketEvent {
        var payload = payload
        var mask = header.mask
        payload.withUnsafeMutableBytes { mask?.apply(to: $0) }
        switch header.opcode {
        case .ping: return .ping(payload)
        case .pong: return .pong(payload)
        default: return try close(payload)
        }
    }

    private func close(_ payload: [UInt8]) throws(Violation) -> WebSocketEvent {
        guard !payload.isEmpty else { return .close(code: nil, reason: "") }
        guard payload.count >= 2 else { throw .protocolError("a close code is cut off") }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        // §7.4: only these codes are allowed in a close frame.
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: break
        default: throw .protocolError("an invalid close code")
        }
        guard let reason = String(validating: payload.dropFirst(2), as: UTF8.self) else {
            throw .inconsistent("a close reason is not UTF-8")
        }
        return .close(code: code, reason: reason)
    }
}
