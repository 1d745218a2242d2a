/// The fields of an HTTP message in their order. Names are compared without regard to case (RFC 9110 §5.1).
package struct HTTPFields: Sendable, Equatable, ExpressibleByDictionaryLiteral {
    package struct Field: Sendable, Equatable {
        package var name: String
        package var value: String
    }

    package private(set) var all: [Field] = []

    package init(_ fields: [(String, String)] = []) {
        all = fields.map { Field(name: $0.0, value: $0.1) }
    }

    package init(dictionaryLiteral fields: (String, String)...) { self.init(fields) }

    package mutating func add(_ name: String, _ value: String) { all.append(Field(name: name, value: value)) }

    /// Adds a line that continues the last field (RFC 9112 §5.2). False: there is no field yet.
    package mutating func continueLast(_ text: String) -> Bool {
        guard !all.isEmpty else { return false }
        if !text.isEmpty { all[all.count - 1].value += (all[all.count - 1].value.isEmpty ? "" : " ") + text }
        return true
    }

    /// Removes all fields of the name, and adds one.
    package mutating func set(_ name: String, _ value: String) {
        all.removeAll { Self.equal($0.name, name) }
        add(name, value)
    }

    /// The value of the first field of the name.
    package func first(_ name: String) -> String? { all.first { Self.equal($0.name, name) }?.value }

    /// The values of all fields of the name.
    package subscript(name: String) -> [String] { all.filter { Self.equal($0.name, name) }.map(\.value) }

    package func contains(_ name: String) -> Bool { first(name) != nil }

    /// The members of a list (RFC 9110 §5.6.1) in all fields of the name, without blanks and tabs around them and
    /// without empty ones.
    package func list(_ name: String) -> [String] {
        self[name].flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }.compactMap { part in
            let text = part.trimmingBlanks
            return text.isEmpty ? nil : String(Substring(text))
        }
    }

    static func equal(_ one: String, _ other: String) -> Bool {
        one.utf8.count == other.utf8.count
            && zip(one.utf8, other.utf8).allSatisfy { $0.lowercasedASCII == $1.lowercasedASCII }
    }
}

extension UInt8 {
    var isBlank: Bool { self == 0x20 || self == 0x09 }
    /// A character of a token, as methods and the names of fields are (RFC 9110 §5.6.2).
    package var isTokenCharacter: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "^")...UInt8(ascii: "z"): true  // ^ _ ` and the lowercase letters
        case UInt8(ascii: "!"), UInt8(ascii: "|"), UInt8(ascii: "~"), UInt8(ascii: "*"), UInt8(ascii: "+"): true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "#")...UInt8(ascii: "'"): true
        default: false
        }
    }
    /// May not be in a line of HTTP; of the control characters only the tab may (RFC 9110 §5.5).
    var isForbiddenControl: Bool { self < 0x20 && self != 0x09 || self == 0x7F }
    var lowercasedASCII: UInt8 { (0x41...0x5A).contains(self) ? self | 0x20 : self }
}

extension BidirectionalCollection<UInt8> {
    /// Without spaces and tabs at both ends (RFC 9110 §5.6.3).
    var trimmingBlanks: SubSequence {
        guard let first = firstIndex(where: { !$0.isBlank }), let last = lastIndex(where: { !$0.isBlank }) else {
            return self[endIndex...]
        }
        return self[first...last]
    }
}
