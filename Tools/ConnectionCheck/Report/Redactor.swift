// Takes secrets out of a peer's text. Reports contain such a text only where its words are for people, and this is the
// second line of defence: it removes the secrets of this run, and everything that looks like one.
import DecartProtocol

package struct Redactor: Sendable {
    private static let mark = TextRedactor.mark
    private let secrets: TextRedactor

    /// - Parameters:
    ///   - secrets: texts that must not appear, in whatever encoding.
    ///   - others: texts of messages, of which the last ones count.
    package init(_ secrets: some Sequence<String>, others: some Sequence<String> = []) {
        var redactor = TextRedactor(secrets)
        for text in others { redactor.add(text) }
        self.secrets = redactor
    }

    package func callAsFunction(_ text: String) -> String {
        Self.withoutTokens(secrets(text)).printable(limit: 300)
    }

    /// Replaces runs of characters that look like tokens or addresses: 20 characters with a digit or 40 without, or
    /// three points between digits.
    private static func withoutTokens(_ text: String) -> String {
        var output = ""
        var run = ""
        func flush() {
            let digits = run.utf8.count { (0x30...0x39).contains($0) }
            let points = run.utf8.count { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: ":") }
            let isAddress = points >= 2 && digits >= 4 && digits + points >= run.utf8.count * 2 / 3
            let isToken = run.utf8.count >= 40 || (run.utf8.count >= 20 && digits > 0)
            output += isToken || isAddress ? mark : run
            run = ""
        }
        for character in text {
            if character.isASCII, character.isLetter || character.isNumber || "-_.~%+/=:@".contains(character) {
                run.append(character)
            } else {
                flush()
                output.append(character)
            }
        }
        flush()
        return output
    }
}
