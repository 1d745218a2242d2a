/// Takes credentials and queries out of URL text, well-formed or not.
package enum URLRedaction {
    package static func redacted(_ text: String) -> String {
        // Text without "://", such as turn:host, has no scheme to keep: all of it up to the last "@" is redacted.
        let schemeEnd = text.firstRange(of: "://") ?? text.startIndex..<text.startIndex
        var rest = text[schemeEnd.upperBound...]
        if let at = rest.lastIndex(of: "@") { rest = "redacted@" + rest[rest.index(after: at)...] }
        if let query = rest.firstIndex(of: "?") {
            let items = rest[rest.index(after: query)...]
            // A TURN transport is no secret and worth reading.
            let shown = items.split(separator: "&").allSatisfy { $0.hasPrefix("transport=") }
            if !shown { rest = rest[...query] + "redacted" }
        }
        return String(text[..<schemeEnd.upperBound] + rest)
    }

    /// Takes user names and passwords out of the URLs of a gst-launch description, and the values of properties such as
    /// `user-pw`.
    package static func withoutPasswords(_ description: String) -> String {
        var (words, quote): ([Substring], Character?) = ([], nil)
        var rest = description[...]
        // A word ends at a space outside of quotes.
        while let end = rest.firstIndex(where: { character in
            if quote == character { quote = nil } else if quote == nil, "\"'".contains(character) { quote = character }
            return quote == nil && character == " "
        }) {
            words.append(rest[..<end])
            rest = rest[rest.index(after: end)...]
        }
        words.append(rest)
        return words.map { withoutPassword($0) }.joined(separator: " ")
    }

    private static func withoutPassword(_ word: Substring) -> String {
        if let equals = word.firstIndex(of: "="), word[..<equals].hasSuffix("-pw") {
            return word[...equals] + "redacted"
        }
        guard let start = word.firstRange(of: "://")?.upperBound, let at = word.lastIndex(of: "@"), at >= start
        else { return String(word) }
        return word[..<start] + "redacted" + word[at...]
    }
}
