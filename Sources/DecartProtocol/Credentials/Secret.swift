/// A string that must not reach a log, an error text, a dump or a debugger's summary by accident. `reveal()` is the
/// only way to read it, and is easy to search for.
package struct Secret: Sendable, Equatable, Hashable {
    private let value: String

    package init(_ value: String) {
        self.value = value
    }

    package var isEmpty: Bool { value.isEmpty }

    /// The secret itself, for the wire only.
    package func reveal() -> String { value }
}

extension Secret: Redacted {}

/// A Decart API key: permanent, or a short-lived client token (`ek_…`).
package struct APIKey: Sendable, Equatable, Hashable {
    private let secret: Secret

    /// Trims surrounding white space, because files and environment variables often end with a line feed. Throws
    /// `INVALID_API_KEY` if the rest is empty, longer than 4096 bytes, has a control character, stands in quotes, or is
    /// `NAME=KEY`.
    package init(_ text: String) throws(ProtocolError) {
        let trimmed = text.trimmingWhitespace()
        guard !trimmed.isEmpty else {
            throw ProtocolError(.invalidAPIKey, "The API key is empty: set api-key, DECART_API_KEY or api-key-file.")
        }
        guard trimmed.utf8.count <= 4096, !trimmed.hasControlCharacters else {
            throw ProtocolError(
                .invalidAPIKey, "The API key contains a control character or is longer than 4096 bytes.")
        }
        let name = trimmed.prefix { $0 != "=" }
        let isVariable =
            name.contains("_")
            && name.trimmingPrefix("export ").allSatisfy {
                $0 == "_" || $0.isASCII && ($0.isUppercase || $0.isNumber)
            }
        // gst-launch-1.0 reads `api-key= prompt=Noir`, with a variable that is not set, so. Base64 ends with =.
        let isProperty =
            name.count > 3 && name.allSatisfy { $0 == "-" || $0.isASCII && $0.isLowercase }
            && trimmed.dropFirst(name.count).contains { $0 != "=" }
        guard name.count == trimmed.count || !isVariable && !isProperty else {
            throw ProtocolError(
                .invalidAPIKey,
                "The API key is NAME=VALUE: a line of an environment file, or the property that follows an empty one. Give the "
                    + "key alone.")
        }
        // Word processors and web pages make others of them.
        let quotes = "\"'`\u{2018}\u{2019}\u{201A}\u{201C}\u{201D}\u{201E}\u{AB}\u{BB}"
        guard let first = trimmed.first, let last = trimmed.last,
            trimmed.count < 2 || !quotes.contains(first) || !quotes.contains(last)
        else {
            throw ProtocolError(.invalidAPIKey, "The API key stands in quotes. Give the key alone.")
        }
        secret = Secret(trimmed)
    }

    /// A placeholder for a key in an example: `...`, `<your key>`, `$DECART_API_KEY`, `YOUR_API_KEY`, or the `x` that does for
    /// the stand-in.
    var isPlaceholder: Bool {
        let text = secret.reveal().lowercased()
        guard let first = text.first, text.contains(where: { $0 != first }), text.contains(where: \.isLetter) else {
            return true
        }
        // Keys are random and longer.
        return "<{[$%".contains(first) || text.utf8.count <= 40 && text.contains("your") && text.contains("key")
    }

    /// The key itself, for the request only.
    package func reveal() -> String { secret.reveal() }
}

extension APIKey: Redacted {}

extension StringProtocol {
    /// Returns the string without leading and trailing Unicode white space.
    package func trimmingWhitespace() -> String {
        var slice = self[...]
        while let first = slice.first, first.isWhitespace { slice.removeFirst() }
        while let last = slice.last, last.isWhitespace { slice.removeLast() }
        return String(slice)
    }
}

extension String {
    /// Replaces every occurrence. Compares bytes, because a combining character may follow the part.
    package func replacingBytes(of part: String, with replacement: String) -> String {
        String(decoding: Array(utf8).replacing(Array(part.utf8), with: Array(replacement.utf8)), as: UTF8.self)
    }

    /// True if the string has a C0 control, DEL or a C1 control, none of which a name, key or URL may contain.
    var hasControlCharacters: Bool {
        unicodeScalars.contains { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }
    }
}
