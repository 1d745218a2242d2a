/// Makes text from a peer safe to log: at most 80 printable characters on one line.
enum LogText {
    static func clean(_ text: String) -> String {
        let printable = text.unicodeScalars.prefix(80).map { scalar in
            scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) ? "?" : Character(scalar)
        }
        return String(printable)
    }
}
