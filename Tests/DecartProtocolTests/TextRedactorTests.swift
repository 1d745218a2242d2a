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
            // JSON within a string, and a character of it as its number.
            text.replacing("/", with: "\\/"), text.replacing("a", with: "\\u0061").replacing(" ", with: "\\u0020"),
            text.replacing("0", with: "\\\\u0030").replacing("c", with: "\\x63"),
            // HTML and forms.
            text.replacing("+", with: "&#43;").replacing("a", with: "&#x61;"), text.replacing(" ", with: "+"),
            text.utf8.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined(),
        ]
    }

    /// In base64 behind a name, which moves its digits.
    @Test(arguments: ["", "k", "ke", "key", "user:"]) func inBase64BehindOtherBytes(before: String) {
        let redact = TextRedactor([Self.secret])
        for alphabet in [Base64.Alphabet.standard, .url] {
            let text = Base64.encode(Array("\(before)\(Self.secret) end".utf8), alphabet: alphabet)
            let inner = text.dropFirst(12).prefix(20)
            #expect(!redact("header \(text)").contains(inner), "\(redact(text))")
            #expect(redact("header \(text)").hasPrefix("header "))
        }
    }

    /// Quotes, line feeds and characters beyond ASCII, as a service writes them that quotes its input.
    @Test func escapedCharacters() {
        let redact = TextRedactor(["My \"house\" & café\nwith 😀 and C:\\temp"])
        let quoted = "My \\\"house\\\" & caf\\u00e9\\nwith \\ud83d\\ude00 and C:\\\\temp"
        let page = "My &quot;house&quot; &amp; caf&#233;\nwith &#x1F600; and C:\\temp"
        let python = "My \"house\" & caf\\xc3\\xa9\\nwith \\xf0\\x9f\\x98\\x80 and C:\\\\temp"
        let printed = "My \"house\" & café with 😀 and C:\\temp"
        for text in [quoted, page, python, printed] {
            #expect(redact("refused: '\(text)'.") == "refused: '<redacted>'.")
        }
    }

    /// Escapes of nothing that is hidden stay as they were.
    @Test(arguments: [
        "\\u00e4 \\ud83d \\ud83d\\u0041 \\uZZZZ \\u12", "\\", "\\x4", "&", "&;", "&#;", "&#x110000;", "&#99999999999;",
        "&amp &unknown; &#x;", "%", "\\xff", "&#xD800; a+b\tc",
    ])
    func otherEscapesStay(text: String) {
        #expect(TextRedactor([Self.secret])(text) == text)
        #expect(TextRedactor([Self.secret])("\(text) \(Self.secret) \(text)") == "\(text) <redacted> \(text)")
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
        // Some leave out the middle.
        for mark in ["…", "..."] {
            let shown = redact("input '\(Self.secret.prefix(9))\(mark)\(Self.secret.suffix(8))' is too long")
            #expect(shown == "input '<redacted>\(mark)<redacted>' is too long")
            #expect(redact("retrying\(mark) still 456789\(mark)") == "retrying\(mark) still 456789\(mark)")
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
        let long = (0..<40).map { "\($0):" + String(repeating: "x", count: 32 << 10) }
        for text in long { redact.add(text) }
        #expect(redact(long[39]) == TextRedactor.mark && redact(long[0]) == long[0])
    }

    /// The key and the first prompt are there from the start.
    @Test func theFirstTextsStay() {
        var redact = TextRedactor([Self.secret])
        for number in 0..<1000 { redact.add("token-\(number)") }
        #expect(redact("a \(Self.secret) b token-999 c") == "a <redacted> b <redacted> c")
    }

    /// Occurrences that overlap.
    @Test(arguments: [
        ("abcabcabc", "x abcabcabcabcab y", "x <redacted>ab y"), ("abcdef", "abcdabcdefef", "abcd<redacted>ef"),
        ("aaaaaab", "aaaaaaaaaaaabaaaaaaaab", "aaaaaa<redacted>aa<redacted>"),
        ("aabaab", "aabaabaabaaabaabaaa", "<redacted>a<redacted>aaa"),
    ])
    func repetitions(secret: String, text: String, shown: String) {
        #expect(TextRedactor([secret])(text) == shown)
        #expect(TextRedactor([secret, "another secret"])("\(text) another secret") == "\(shown) <redacted>")
    }

    /// Secret and text of a service that wants each comparison to fail late.
    @Test func longRepetitions() {
        let text = String(repeating: "a", count: 30 << 10)
        var redact = TextRedactor()
        for length in 1...8 { redact.add(text.prefix(length << 10) + "b") }
        #expect(redact(text) == text && redact(text + "b") == text.dropLast(8 << 10) + "<redacted>")
        #expect(redact("\(text)c…\(text)") == "\(text)c…\(text)")
        #expect(redact(text + text + text) == TextRedactor.mark)
    }
}
