/// A validated text prompt.
package struct Prompt: Sendable, Equatable {
    /// Characters as the user counts them (grapheme clusters).
    package static let maximumLength = 1000

    package let text: String
    /// True if the service may rewrite the text.
    package let enrich: Bool

    /// Trims surrounding white space; the rest may be empty. Throws `INVALID_INPUT` if it is too long or contains NUL.
    package init(_ text: String, enrich: Bool = false) throws(ProtocolError) {
        let trimmed = text.trimmingWhitespace()
        let length = trimmed.count
        guard length <= Prompt.maximumLength else {
            throw ProtocolError(
                .invalidInput, "The prompt has \(length) characters; at most \(Prompt.maximumLength) are allowed.")
        }
        // A few characters can hide megabytes of combining marks.
        guard trimmed.utf8.count <= 64 * Prompt.maximumLength else {
            throw ProtocolError(
                .invalidInput,
                "The prompt has too many combining marks: it exceeds \(64 * Prompt.maximumLength) bytes.")
        }
        guard !trimmed.unicodeScalars.contains("\0") else {
            throw ProtocolError(.invalidInput, "The prompt has a NUL character in it.")
        }
        self.text = trimmed
        self.enrich = enrich
    }

    package var isEmpty: Bool { text.isEmpty }
}
