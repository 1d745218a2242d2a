/// A validated text prompt.
package struct Prompt: Sendable, Equatable {
    /// Bytes of UTF-8.
    package static let maximumSize = 64 << 10
    /// The limit that Decart documents for other requests, in characters as the user counts them (grapheme clusters).
    package static let usualLength = 1000

    package let text: String
    /// True if the service may rewrite the text.
    package let enrich: Bool

    /// Trims surrounding white space; the rest may be empty. Throws `INVALID_INPUT` if it is too long or contains NUL.
    package init(_ text: String, enrich: Bool = false) throws(ProtocolError) {
        let trimmed = text.trimmingWhitespace()
        guard trimmed.utf8.count <= Prompt.maximumSize else {
            throw ProtocolError(
                .invalidInput,
                "The prompt has \(trimmed.utf8.count) bytes; at most \(Prompt.maximumSize) are sent. Shorten it.")
        }
        guard !trimmed.unicodeScalars.contains("\0") else {
            throw ProtocolError(.invalidInput, "The prompt has a NUL character in it.")
        }
        self.text = trimmed
        self.enrich = enrich
    }

    package var isEmpty: Bool { text.isEmpty }
    package var length: Int { text.count }
}
