/// A cheap check of a JSON text before the real parser reads it: size, UTF-8, nesting depth, control characters, and the
/// escapes in names, at which the parser of Swift 6.0 traps. It accepts some invalid texts, which the parser rejects, but
/// rejects no valid object within the limits, save one that has half a surrogate pair in a name.
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
        // The last string, whose escapes count if a colon makes it a name.
        var (start, end, hasEscapes) = (0, 0, false)
        for (index, byte) in bytes.enumerated() {
            // RFC 8259 §7: strings escape control characters; §2: between tokens, only tab, line feed and carriage
            // return.
            if byte < 0x20, inString || !isSpace(byte) {
                throw ProtocolError(.server, "A message has a control character in it.")
            }
            if inString {
                if escaped {
                    escaped = false
                } else if byte == UInt8(ascii: "\\") {
                    (escaped, hasEscapes) = (true, true)
                } else if byte == UInt8(ascii: "\"") {
                    (inString, end) = (false, index)
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""):
                (inString, start, hasEscapes) = (true, index + 1, false)
            case UInt8(ascii: ":") where hasEscapes:
                guard areEscapesValid(bytes[start..<end]) else {
                    throw ProtocolError(.server, "A message is malformed: not JSON.")
                }
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

    /// True if each escape is one that RFC 8259 §7 has, and each surrogate is part of a pair.
    private static func areEscapesValid(_ name: ArraySlice<UInt8>) -> Bool {
        var rest = name
        var isHalf = false
        while let byte = rest.popFirst() {
            var unit = 0
            if byte == UInt8(ascii: "\\"), let kind = rest.popFirst() {
                if kind == UInt8(ascii: "u") {
                    for _ in 0..<4 {
                        guard let digit = rest.popFirst(), let value = Character(Unicode.Scalar(digit)).hexDigitValue
                        else { return false }
                        unit = unit << 4 | value
                    }
                } else if !#""\/bfnrt"#.utf8.contains(kind) {
                    return false
                }
            }
            guard isHalf == (0xDC00..<0xE000).contains(unit) else { return false }
            isHalf = (0xD800..<0xDC00).contains(unit)
        }
        return !isHalf
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}
