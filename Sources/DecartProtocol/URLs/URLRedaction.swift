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
}
