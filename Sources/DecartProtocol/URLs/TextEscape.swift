/// One escape at the beginning of some bytes: of URLs (`%2B`), of JSON and programming languages (`\u002b`, `\/`, `\x2b`), or
/// of HTML (`&#43;`, `&amp;`).
struct TextEscape {
    /// The UTF-8 text that the escape stands for.
    let bytes: [UInt8]
    /// Number of bytes that the escape itself has.
    let length: Int

    static func begins(_ byte: UInt8) -> Bool { "%\\&".utf8.contains(byte) }

    /// Returns nil if no escape is there.
    init?(_ text: ArraySlice<UInt8>) {
        switch text.first {
        case UInt8(ascii: "%"):
            guard let byte = PercentEncoding.byte(text.prefix(3)) else { return nil }
            self.init([byte], length: 3)
        case UInt8(ascii: "\\"): self.init(backslash: text.dropFirst().prefix(11))
        case UInt8(ascii: "&"): self.init(entity: text.dropFirst().prefix(10))
        default: return nil
        }
    }

    private init?(backslash text: ArraySlice<UInt8>) {
        switch text.first.map(Unicode.Scalar.init) {
        case "u":
            guard let high = Self.number(text.dropFirst().prefix(4), digits: 4) else { return nil }
            let rest = text.dropFirst(5)
            if (0xD800..<0xDC00).contains(high), rest.starts(with: [UInt8]("\\u".utf8)),
                let low = Self.number(rest.dropFirst(2).prefix(4), digits: 4), (0xDC00..<0xE000).contains(low)
            {
                self.init(scalar: 0x10000 + (high - 0xD800) << 10 + (low - 0xDC00), length: 12)
            } else {
                self.init(scalar: high, length: 6)
            }
        case "x":
            // The number of a byte. A character beyond ASCII has several such escapes in a row, one for each byte of its UTF-8.
            guard let byte = Self.number(text.dropFirst().prefix(2), digits: 2).flatMap(UInt8.init(exactly:)) else {
                return nil
            }
            self.init([byte], length: 4)
        case "n", "r", "t": self.init([UInt8(ascii: " ")], length: 2)
        case "\"", "'", "\\", "/": self.init(Array(text.prefix(1)), length: 2)
        default: return nil
        }
    }

    private static let entities: [(name: String, character: Unicode.Scalar)] = [
        ("amp", "&"), ("lt", "<"), ("gt", ">"), ("quot", "\""), ("apos", "'"), ("nbsp", " "),
    ]

    /// - Parameter text: follows the ampersand.
    private init?(entity text: ArraySlice<UInt8>) {
        guard let end = text.firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let name = text[..<end]
        let length = name.count + 2
        if name.first == UInt8(ascii: "#") {
            let digits = name.dropFirst()
            let isHex = digits.first.map { $0 | 0x20 } == UInt8(ascii: "x")
            let text = String(decoding: isHex ? digits.dropFirst() : digits, as: UTF8.self)
            guard let value = UInt32(text, radix: isHex ? 16 : 10) else { return nil }
            self.init(scalar: value, length: length)
        } else {
            guard let known = Self.entities.first(where: { $0.name.utf8.elementsEqual(name) }) else { return nil }
            self.init(scalar: known.character.value, length: length)
        }
    }

    private init?(scalar value: UInt32, length: Int) {
        guard let scalar = Unicode.Scalar(value) else { return nil }
        self.init(Array(String(Character(scalar)).utf8), length: length)
    }

    private init(_ bytes: [UInt8], length: Int) { (self.bytes, self.length) = (bytes, length) }

    private static func number(_ text: ArraySlice<UInt8>, digits: Int) -> UInt32? {
        guard text.count == digits, text.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }) else {
            return nil
        }
        return UInt32(String(decoding: text, as: UTF8.self), radix: 16)
    }
}
