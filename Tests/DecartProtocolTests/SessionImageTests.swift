import DecartProtocol
import TestSupport
import Testing

struct SessionImageTests {
    private static let png = ReferenceImageTests.png(16, 16)
    private static var base64: String { Base64.encode(png) }

    @Test(arguments: ["file_01ABCdef-9_x", "file_1"]) func idsOfFiles(text: String) throws {
        #expect(try SessionImage(text) == .file(id: text))
        #expect(try SessionImage(text).message == .reference(text))
        #expect(SessionImage.shown(text) == text)
    }

    /// These are paths, of files that do not exist.
    @Test(arguments: [
        "file_1.png", "./file_1", "file_", "File_1", "file_ä", "file_" + String(repeating: "x", count: 300),
    ])
    func paths(text: String) {
        #expect(throws: ProtocolError.self) { try SessionImage(text) }
        #expect((try? SessionImage(text)) == nil)
    }

    @Test func dataURLs() throws {
        let image = SessionImage.image(try ReferenceImage(bytes: Self.png))
        let escaped = Self.base64.replacing("=", with: "%3D").replacing("+", with: "%2B")
        let plain = Self.png.map { "%" + (String($0 / 16, radix: 16) + String($0 % 16, radix: 16)) }.joined()
        for url in [
            "data:image/png;base64,\(Self.base64)", "DATA:IMAGE/PNG;BASE64,\(Self.base64)",
            "data:;base64,\(Self.base64)",
            "data:image/png;name=x;base64,\(escaped)", "data:image/png,\(plain)", "data:,\(plain)",
        ] {
            #expect(try SessionImage(url) == image, "\(url.prefix(40))")
        }
        #expect(image.message == .data(base64: Self.base64))
    }

    @Test(arguments: [
        ("data:image/png;base64", "comma"), ("data:text/html;base64,AAAA", "media type"),
        ("data:image/png;base64,A*AA", "base64"), ("data:image/png;base64,A", "base64"),
        ("data:image/png,%4", "percent-encoding"), ("data:image/png;base64,AAAA", "still JPEG"), ("data:,", "empty"),
    ])
    func badDataURLs(url: String, cause: String) {
        let error = thrown(ProtocolError.self) { try SessionImage(url) }
        #expect(error?.code == .invalidInput && error?.message.contains(cause) == true)
        #expect(error?.message.contains("reference image") == true)
    }

    @Test func dataURLsOverTheLimit() {
        let large = "data:image/png;base64," + String(repeating: "A", count: 14_000_001)
        let error = thrown(ProtocolError.self) { try SessionImage(large) }
        #expect(error?.message.contains("10 MiB") == true)
        #expect((try? SessionImage("data:," + String(repeating: "A", count: 32 << 20))) == nil)
    }

    @Test func shownWithoutItsData() {
        #expect(SessionImage.shown("data:image/png;base64,\(Self.base64)") == "data:image/png;base64,…")
        #expect(SessionImage.shown("/a/b.png") == "/a/b.png")
    }
}

struct QueryItemsTests {
    @Test func items() throws {
        func parse(_ text: String) throws -> [String] { try QueryItems.parse(text).map { "\($0.name)|\($0.value)" } }
        #expect(try parse("a=b&c=d") == ["a|b", "c|d"])
        #expect(try parse("a=&b=x%26y%3Dz=1") == ["a|", "b|x&y=z=1"])
        #expect(try parse("a=1&a=2") == ["a|1", "a|2"])
        #expect(try parse("speed=turbo&resolution=1440p") == ["speed|turbo", "resolution|1440p"])
        let url = try ServiceURL(base: "wss://x.example").stream(
            key: APIKey("k"), model: DecartModel(named: "lucy-2.1"), options: QueryItems.parse("trace=a%20b%26c"))
        #expect(url.requestTarget == "/v1/stream?api_key=k&model=lucy-2.1&trace=a%20b%26c")
        #expect(!url.description.contains("trace"))
    }

    @Test(arguments: [
        "a", "=b", "a=b&", "&", "a=%4", "a=%FF", "a=%00", "api_key=x", "API_KEY=x", "%61pi_key=x", "a=b&model=m",
        "pixel_latency=0", "livekit_early_room_info=x", "IP=1", "port=2",
        "a=" + String(repeating: "x", count: 5000), String(repeating: "a=b&", count: 40) + "a=b",
    ])
    func refused(text: String) {
        let error = thrown(ProtocolError.self) { try QueryItems.parse(text) }
        #expect(error?.code == .invalidOptions && error?.message.contains("query-items") == true)
    }

    @Test func errorsQuoteNoValue() {
        let error = thrown(ProtocolError.self) {
            try QueryItems.parse("token=secret-value&model=secret-value")
        }
        #expect(error?.message.contains("secret-value") == false && error?.message.contains("model") == true)
    }
}
