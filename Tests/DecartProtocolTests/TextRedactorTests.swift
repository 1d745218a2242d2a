import DecartProtocol
import Testing

/// Secrets in the text of a peer, in whatever form it repeats them.
struct TextRedactorTests {
    private static let secret = "ek_Key+with/signs=0123456789"
    private static let prompt = "PRIVATE prompt: a castle 100% of glass, summer"

    private static func forms(_ text: String) -> [String] {
        let whole = PercentEncoding.encode(text)
        return [
            text, text.uppercased(), text.lowercased(), whole, whole.lowercased(), PercentEncoding.encode(whole),
            // Encoded in part.
            PercentEncoding.encode(String(text.prefix(6))) + text.dropFirst(6),
            text.replacing("+", with: "%2b"), Base64.encode(Array(text.utf8)),
            Base64.encode(Array(text.utf8), alphabet: .url),
        ]
    }

    @Test(arguments: [secret, prompt])
    func eachForm(text: String) {
        let redact = TextRedactor([Self.secret, Self.prompt])
        for form in Self.forms(text) {
            #expect(redact("refused [\(form)] twice: \(form).").hasPrefix("refused [<redacted>"), "\(form)")
            #expect(!redact("refused [\(form)]").lowercased().contains(form.lowercased().dropFirst(4).dropLast(4)))
        }
    }

    /// A text that was shortened before it is redacted ends within a secret.
    @Test func partsBeforeACut() {
        let redact = TextRedactor([Self.secret, "short"])
        for form in Self.forms(Self.secret) {
            for length in 8..<form.count {
                let shown = redact("refused: \(form.prefix(length))… (HTTP 503).")
                #expect(shown.hasPrefix("refused: <redacted>") && shown.hasSuffix("… (HTTP 503)."), "\(shown)")
            }
        }
        #expect(redact("ek_Key+w and …") == "ek_Key+w and …")
        #expect(redact("ek_Ke…, sho…, %…, …") == "ek_Ke…, sho…, %…, …")
    }

    @Test func theRestStays() {
        let redact = TextRedactor([Self.secret, "short"])
        for text in ["", "%", "%2", "100 %2B of a short text", "ek_Key+with", "été %C3%A9 %zz"] {
            #expect(redact(text) == text)
        }
        #expect(redact("a \(Self.secret) b\u{301}") == "a <redacted> b\u{301}")
    }

    /// One that contains another, and two that overlap.
    @Test func severalSecrets() {
        let redact = TextRedactor(["abcdef", "abcdefghij", "ghijklmn"])
        #expect(redact("x abcdefghij y abcdef z") == "x <redacted> y <redacted> z")
        #expect(redact("x abcdefghijklmn y") == "x <redacted> y")
    }

    /// A service may name any number of tokens.
    @Test func manyTexts() {
        var redact = TextRedactor()
        for number in 0..<1000 { redact.add("token-\(number)") }
        #expect(redact("token-999") == TextRedactor.mark)
        #expect(redact("token-1 ") == "token-1 ")
    }
}
