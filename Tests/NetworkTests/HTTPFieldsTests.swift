import Testing

import Network

@Suite struct HTTPFieldsTests {
    @Test func namesAreComparedWithoutCase() {
        var fields: HTTPFields = ["Host": "a", "x-list": " one,\ttwo ,, ", "X-List": "three"]
        #expect(fields.first("hOST") == "a")
        #expect(fields["X-LIST"] == [" one,\ttwo ,, ", "three"])
        #expect(fields.list("x-list") == ["one", "two", "three"])
        fields.set("X-list", "four")
        #expect(fields["x-list"] == ["four"])
        #expect(!fields.contains("Other"))
    }

    /// A blank and a combining character after it are one character of Swift, but two of HTTP.
    @Test func blanksAreBytes() {
        let fields: HTTPFields = ["List": "a \u{301}b, \u{301}c, \u{600} "]
        #expect(
            fields.list("List").map { Array($0.unicodeScalars) } == [
                ["a", " ", "\u{301}", "b"], ["\u{301}", "c"], ["\u{600}"],
            ])
    }

    @Test func linesContinueTheLastField() {
        var fields = HTTPFields()
        let isContinued = fields.continueLast("a")
        #expect(!isContinued)
        fields.add("A", "")
        let results = ["b", "", "c"].map { fields.continueLast($0) }
        #expect(results == [true, true, true] && fields["A"] == ["b c"])
    }

    @Test func tokens() {
        let characters = (UInt8(0)...255).filter(\.isTokenCharacter)
        let expected = "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~"
        #expect(String(decoding: characters, as: UTF8.self) == expected)
    }
}
