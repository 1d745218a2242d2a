/// A cheap check of a JSON text before the real parser reads it: size, UTF-8, nesting depth and control characters. It
/// accepts some invalid texts, which the parser rejects, but rejects no valid object within the limits.
package enum JSONGuard {
    /// The protocol's own messages have 3 levels.
    package static let maximumDepth = 32

    package static func check(_ bytes: [UInt8], maximumSize: Int) throws(ProtocolError) {
        guard bytes.count <= maximumSize else {
            throw ProtocolError(.server, "A message is larger than \(maximumSize) bytes.")
        }
        // A text frame holds one object. This check also rejects byte order marks, and UTF-16 or UTF-32, which the
        // parser would guess.
        guard bytes.first(where: { !isSpace($0) }) == UInt8(ascii: "{") else {
            throw ProtocolError(.server, "A message is not a JSON object.")
        }
        guard String(validating: bytes, as: UTF8.self) != nil else {
            throw ProtocolError(.server, "A message is not valid UTF-8.")
        }
        try scan(bytes)
    }

    private static func scan(_ bytes: [UInt8]) throws(ProtocolError) {
        var depth = 0
        var inString = false
        var escaped = false
        for byte in bytes {
            // RFC 8259 §7: strings escape control characters; §2: between tokens, only tab, line feed and carriage
            // return.
            if byte < 0x20, inString || !isSpace(byte) {
                throw ProtocolError(.server, "A message has a control character in it.")
            }
            if inString {
                if escaped {
                    escaped = false
                } else if byte == UInt8(ascii: "\\") {
                    escaped = true
                } else if byte == UInt8(ascii: "\"") {
                    inString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""):
                inString = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                guard depth <= maximumDepth else {
                    throw ProtocolError(.server, "A message is nested deeper than \(maximumDepth) levels.")
                }
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                guard depth >= 0 else { throw ProtocolError(.server, "A message is malformed: not JSON.") }
            default:
                break
            }
        }
        guard depth == 0, !inString else { throw ProtocolError(.server, "A message is cut off.") }
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}
