import FoundationEssentials

/// Base64 (RFC 4648 §4) and base64url (§5).
package enum Base64 {
    package enum Alphabet: Sendable {
        /// `+` and `/`, with padding.
        case standard
        /// `-` and `_`, without padding.
        case url
    }

    package static func encode(_ bytes: [UInt8], alphabet: Alphabet = .standard) -> String {
        let text = Data(bytes).base64EncodedString()
        guard alphabet == .url else { return text }
        return String(decoding: text.utf8.prefix { $0 != padding }.map { translate($0, "+/", "-_") }, as: UTF8.self)
    }

    /// Returns nil if a character is not in the alphabet or the length is impossible. Padding is optional.
    package static func decode(_ text: String, alphabet: Alphabet = .standard) -> [UInt8]? {
        var digits = Array(text.utf8.prefix { $0 != padding })
        let missing = (4 - digits.count % 4) % 4
        let rest = text.utf8.dropFirst(digits.count)
        guard missing < 3, rest.isEmpty || rest.count == missing, rest.allSatisfy({ $0 == padding }) else { return nil }
        if alphabet == .url {
            guard !digits.contains(where: { "+/".utf8.contains($0) }) else { return nil }
            digits = digits.map { translate($0, "-_", "+/") }
        }
        return Data(base64Encoded: Data(digits + [UInt8](repeating: padding, count: missing))).map { [UInt8]($0) }
    }

    private static let padding = UInt8(ascii: "=")

    private static func translate(_ digit: UInt8, _ from: String, _ to: String) -> UInt8 {
        zip(from.utf8, to.utf8).first { $0.0 == digit }?.1 ?? digit
    }
}
