package enum WebSocketOpcode: UInt8, Sendable {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    var isControl: Bool { rawValue >= 8 }
}

package enum WebSocketRole: Sendable { case client, server }

/// A frame to send (RFC 6455 §5.2). The initialiser takes any bits, for tests and for faults on purpose.
package struct WebSocketFrame: Sendable {
    package static let maximumControlPayload = 125

    package var isFinal: Bool
    /// RSV1 to RSV3, as a number from 0 to 7.
    package var reserved: UInt8
    package var opcode: UInt8
    /// The first byte on the wire is the most significant one.
    package var maskKey: UInt32?
    package var payload: [UInt8]

    package init(
        isFinal: Bool = true, reserved: UInt8 = 0, opcode: UInt8, maskKey: UInt32? = nil,
        payload: some Collection<UInt8>
    ) {
        self.isFinal = isFinal
        self.reserved = reserved
        self.opcode = opcode
        self.maskKey = maskKey
        self.payload = Array(payload)
    }

    /// The frame on the wire, with its length in the shortest form.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(14 + payload.count)
        bytes.append((isFinal ? 0x80 : 0) | (reserved & 7) << 4 | opcode & 0x0F)
        let maskBit: UInt8 = maskKey == nil ? 0 : 0x80
        switch payload.count {
        case ...125:
            bytes.append(maskBit | UInt8(payload.count))
        case ...0xFFFF:
            bytes.append(maskBit | 126)
            bytes.append(bigEndian: UInt16(payload.count))
        default:
            bytes.append(maskBit | 127)
            bytes.append(bigEndian: UInt64(payload.count))
        }
        guard let maskKey else { return bytes + payload }
        bytes.append(bigEndian: maskKey)
        let start = bytes.count
        bytes += payload
        var mask = WebSocketMask(maskKey)
        bytes.withUnsafeMutableBytes { mask.apply(to: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
        return bytes
    }

    /// - Parameter payload: at most 125 bytes for close, ping and pong.
    package static func bytes(
        _ opcode: WebSocketOpcode, _ payload: some Collection<UInt8>, isFinal: Bool = true, as role: WebSocketRole
    ) -> [UInt8] {
        // §5.3: a client masks each frame with a new, unpredictable key.
        let key = role == .client ? UInt32.random(in: .min ... .max) : nil
        return WebSocketFrame(isFinal: isFinal, opcode: opcode.rawValue, maskKey: key, payload: payload).bytes
    }

    /// - Parameters:
    ///   - code: without one, the frame has no reason either (§5.5.1).
    ///   - reason: cut before the first character that does not fit.
    package static func close(code: UInt16?, reason: String = "", as role: WebSocketRole) -> [UInt8] {
        var payload: [UInt8] = []
        if let code {
            payload.append(bigEndian: code)
            for character in reason {
                guard payload.count + character.utf8.count <= maximumControlPayload else { break }
                payload += character.utf8
            }
        }
        return bytes(.close, payload, as: role)
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian number: some FixedWidthInteger) {
        for shift in stride(from: number.bitWidth - 8, through: 0, by: -8) {
            append(UInt8(truncatingIfNeeded: number >> shift))
        }
    }
}
