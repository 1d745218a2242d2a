extension UInt8 {
    /// A letter or digit of ASCII, or one of `others`.
    package func isAlphanumeric(or others: String) -> Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: others.utf8.contains(self)
        }
    }
}

extension String {
    /// Makes a peer's text safe to show: replaces control characters and cuts it off after `limit` Unicode scalars.
    package func printable(limit: Int) -> String {
        let scalars = unicodeScalars.prefix(limit).map { scalar -> Character in
            scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) ? " " : Character(scalar)
        }
        return String(scalars) + (unicodeScalars.count > limit ? "…" : "")
    }

    /// The text with an uppercase first letter, for a message that begins with it.
    package var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }

    /// The text as a complete sentence, so that another one can follow it.
    package var asSentence: String { last.map { ".!?".contains($0) } ?? true ? self : self + "." }

    /// The text without its final point, for a message that continues after it.
    package var withoutFinalPoint: String { hasSuffix(".") ? String(dropLast()) : self }
}

extension Double {
    /// The number without a superfluous ".0".
    package var brief: String { Int(exactly: self).map(String.init) ?? String(self) }
}
