// Takes secrets out of a peer's text. Reports contain such a text only where its words are for people, and this is the
// second line of defence: it removes the secrets of this run, and everything that looks like one.
import DecartProtocol

package struct Redactor: Sendable {
    private static let mark = "<redacted>"
    /// Shorter texts could occur in any sentence.
    private static let minimumLength = 6

    private let secrets: [[UInt8]]

    /// - Parameter secrets: texts that must not appear, also percent-encoded.
    package init(_ secrets: some Sequence<String>) {
        let all = secrets.filter { $0.utf8.count >= Self.minimumLength }.flatMap { [$0, PercentEncoding.encode($0)] }
        // Longest first: a secret may contain another one.
        self.secrets = Set(all).sorted { $0.utf8.count > $1.utf8.count }.map { [UInt8]($0.utf8) }
    }

    package func callAsFunction(_ text: String) -> String {
        var bytes = [UInt8](text.utf8)
        for secret in secrets { bytes = Self.replacing(secret, in: bytes) }
        return Self.withoutTokens(String(decoding: bytes, as: UTF8.self)).printable(limit: 300)
    }

    private static func replacing(_ secret: [UInt8], in text: [UInt8]) -> [UInt8] {
        guard text.count >= secret.count else { return text }
        var output: [UInt8] = []
        var index = 0
        while index < text.count {
            if text[index...].starts(with: secret) {
                output += mark.utf8
                index += secret.count
            } else {
                output.append(text[index])
                index += 1
            }
        }
        return output
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
