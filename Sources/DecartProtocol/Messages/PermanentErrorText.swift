/// Recognizes error texts after which a retry is pointless. Compares whole words: "frame 14012" is not a 401.
package enum PermanentErrorText {
    private static let phrases: [[Substring]] = [
        "401", "403", "unauthorized", "permission denied", "not allowed", "invalid api key", "invalid session",
        "session expired",
    ].map { $0.split(separator: " ") }

    package static func matches(_ text: String) -> Bool {
        let words = words(of: text)
        return phrases.contains { contains($0, in: words) }
    }

    /// True if the words of `phrase` follow each other in the text: "invalid_model" in "Invalid model: x".
    package static func mentions(_ phrase: String, in text: String) -> Bool {
        contains(words(of: phrase), in: words(of: text))
    }

    private static func contains(_ phrase: [Substring], in words: [Substring]) -> Bool {
        words.indices.contains { words[$0...].starts(with: phrase) }
    }

    /// True if the text is about the key itself, so that the error can carry `INVALID_API_KEY`.
    package static func concernsKey(_ text: String) -> Bool {
        let words = words(of: text)
        let keyPhrases = phrases.filter { $0 == ["401"] || $0 == ["unauthorized"] || $0 == ["invalid", "api", "key"] }
        return keyPhrases.contains { contains($0, in: words) }
    }

    /// Splits the text into runs of lower-case letters and digits. A point or comma between digits belongs to the
    /// number.
    fileprivate static func words(of text: String) -> [Substring] {
        let bytes = [UInt8](text.lowercased().utf8)
        func isDigit(_ index: Int) -> Bool { bytes.indices.contains(index) && (0x30...0x39).contains(bytes[index]) }
        var spaced: [UInt8] = []
        spaced.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0x30...0x39, 0x61...0x7A, 0x80...:
                spaced.append(byte)
            case UInt8(ascii: "."), UInt8(ascii: ","):
                spaced.append(isDigit(index - 1) && isDigit(index + 1) ? byte : 0x20)
            default:
                spaced.append(0x20)
            }
        }
        return String(decoding: spaced, as: UTF8.self).split(separator: " ")
    }
}

/// Recognizes the error text of a service whose account has all its sessions in use: "Concurrent session limit reached".
package enum ConcurrencyLimitText {
    package static func matches(_ text: String) -> Bool {
        let words = PermanentErrorText.words(of: text)
        return words.contains("concurrent") && words.contains("limit")
    }
}
