import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)))
struct SDPDescriptionTests {
    init() { GStreamerRuntime.initialise() }

    private static let head = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"

    @Test func roundTrip() throws {
        var sdp = SDPDescription()
        sdp.attributes = [SDPAttribute("group", "BUNDLE 0"), SDPAttribute("extmap-allow-mixed")]
        var video = SDPMedia(kind: "video", port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: ["96", "97"])
        video.attributes = [SDPAttribute("mid", "0"), SDPAttribute("sendrecv"), SDPAttribute("rtpmap", "96 VP8/90000")]
        sdp.media = [video, SDPMedia(kind: "audio", port: 0, transport: "UDP/TLS/RTP/SAVPF", formats: ["0"])]
        let text = sdp.text(sessionID: .max, version: 2)
        #expect(text.hasPrefix("v=0\r\no=- 18446744073709551615 2 IN IP4 127.0.0.1\r\n"))
        let read = try SDPDescription(parsing: text)
        // gstsdp parses an attribute without a value as one with an empty value.
        #expect(read.attributes == [SDPAttribute("group", "BUNDLE 0"), SDPAttribute("extmap-allow-mixed", "")])
        video.attributes[1].value = ""
        #expect(read.media == [video, sdp.media[1]])
    }

    @Test func attributesByName() throws {
        let sdp = try SDPDescription(parsing: Self.head + "m=video 9 X 1\r\na=x:1\r\na=x:2\r\na=y\r\na=z:\r\n")
        let media = try #require(sdp.media.first)
        #expect(media.values("x") == ["1", "2"])
        #expect(media.value("x") == "1")
        #expect(media.has("y") && media.value("nothing") == nil && !media.has("X"))
    }

    @Test(arguments: [
        "", "v", "v=0", "v=0\r\n", "m=", "a=\r\n", head + "m=", head + "m=video", head + "m=video x y z",
        head + "m=video 99999999999 X 1",
        head + "m=video -1 X 1", head + "a=:::\r\na=\r\na=:x\r\n",
        head + "c=IN\r\nb=\r\nr=\r\nz=\r\nk=\r\ne=\r\np=\r\nu=\r\ni=\r\n",
        head + "t=\r\nr=1 2\r\nz=1\r\n", head + "c=IN IP4 224.2.36.42/127/3\r\nm=audio 1/70000 X 0\r\nc=\r\nc= \r\n",
        head + "\r\n\r\n\n\n\r",
        head + "k=prompt\r\nm=a 1 b\r\nk=:\r\nb=AS:\r\nb=:5\r\n", "v=0\r\no=\r\ns=\r\n", "v=0\no=- \n",
        head + "m=\u{1F600} 1 \u{1F600} \u{1F600}\r\n",
    ])
    func hostileTextNeverTraps(text: String) {
        for cut in 0...text.utf8.count {
            let part = String(decoding: text.utf8.prefix(cut), as: UTF8.self)
            if let sdp = try? SDPDescription(parsing: part) {
                for media in sdp.media { #expect((0...Int(UInt32.max)).contains(media.port)) }
                // A parsed description can be written again.
                #expect(sdp.text(sessionID: 0, version: 0).hasPrefix("v=0"))
            }
        }
    }

    @Test func bounds() throws {
        let section = "m=video 9 X 1\r\n"
        #expect(try SDPDescription(parsing: Self.head + String(repeating: section, count: 64)).media.count == 64)
        for text in [
            Self.head + String(repeating: section, count: 65), Self.head + "a=" + String(repeating: "x", count: 65_536),
            Self.head + "a=x\u{0}y\r\n", "hello", "v=2\r\n", " v=0\r\n",
        ] {
            #expect(throws: GStreamerError.self) { try SDPDescription(parsing: text) }
        }
        let many = Self.head + String(repeating: "a=x\r\n", count: 13_000)
        #expect(try SDPDescription(parsing: many).attributes.count == 13_000)
    }

    /// A line break in a value must not start a new line.
    @Test func writtenValuesStayInTheirLine() throws {
        var sdp = SDPDescription()
        sdp.attributes = [SDPAttribute("x", "1\r\na=evil:1")]
        let text = sdp.text(sessionID: 1, version: 1)
        #expect(try !SDPDescription(parsing: text).has("evil"))
    }
}
