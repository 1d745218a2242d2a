import Network

/// Bytes of invalid frames and messages (RFC 6455 §5.2). Valid frames from a server are not masked.
enum HostileFrames {
    static func json(_ kind: FaultKind.JSON) -> [[UInt8]] {
        switch kind {
        case .depth:
            let depth = 100_000
            let text = "{\"type\":\"status\",\"status\":" + String(repeating: "[", count: depth)
            return [frame(Array((text + String(repeating: "]", count: depth) + "}").utf8))]
        case .size:
            let text = "{\"type\":\"error\",\"error\":\"" + String(repeating: "a", count: 2 << 20) + "\"}"
            return [frame(Array(text.utf8))]
        case .utf8:
            return [frame(Array("{\"type\":\"status\",\"status\":\"".utf8) + [0xff, 0xfe, 0xc0] + Array("\"}".utf8))]
        case .type:
            return wrongTypes.map { frame(Array($0.utf8)) }
        }
    }

    private static let wrongTypes = [
        "{\"type\":42}", "{\"type\":null}", "{}", "[]", "\"status\"", "null", "",
        "{\"type\":\"no_such_type\",\"nested\":{\"x\":[1,2,3]}}",
        "{\"type\":\"status\"}", "{\"type\":\"status\",\"status\":[\"ready\"]}",
        "{\"type\":\"queue_position\",\"position\":\"first\"}", "{\"type\":\"queue_position\",\"position\":1e400}",
        "{\"type\":\"prompt_ack\",\"success\":\"perhaps\"}", "{\"type\":\"ice-candidate\",\"candidate\":7}",
        "{\"type\":\"ice-candidate\"}", "{\"type\":\"answer\",\"sdp\":false}",
        "{\"type\":\"generation_tick\",\"seconds\":\"\\ud800\"}",
    ]

    static func steps(_ kind: FaultKind.Frame, n: Int?) -> [FaultScript.Step] {
        let message = Array("{\"type\":\"status\",\"status\":\"ready\"}".utf8)
        switch kind {
        case .rsv: return [.raw(WebSocketFrame(reserved: 0b100, opcode: 1, payload: message).bytes)]
        case .opcode: return [.raw(WebSocketFrame(opcode: 3, payload: message).bytes)]
        case .masked: return [.raw(WebSocketFrame(opcode: 1, maskKey: 0x1122_3344, payload: message).bytes)]
        case .hugeLength:
            let length = UInt64(n ?? Int.max)
            return [.raw([0x81, 127] + (0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * $0)) } + [0x7b])]
        case .fragments:
            let begin: [UInt8] = [0x01, 1, 0x61]
            let next: [UInt8] = [0x00, 1, 0x61]
            guard let n, n > 0 else {
                return [.raw(begin), .rawRepeated(Array(repeatElement(next, count: 64).joined()))]
            }
            let whole: [UInt8] = [0x81, 1, 0x61]
            let end: [UInt8] = [0x80, 1, 0x61]
            return [.raw(n == 1 ? whole : begin + repeatElement(next, count: min(n, 1_000_000) - 2).joined() + end)]
        }
    }

    private static func frame(_ payload: [UInt8]) -> [UInt8] { WebSocketFrame.bytes(.text, payload, as: .server) }
}
