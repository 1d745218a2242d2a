import ICE
import Testing

struct ICEServerTests {
    struct Good: Sendable, CustomTestStringConvertible {
        let url: String
        let kind: ICEServer.Kind
        let transport: ICEServer.Transport
        let host: String
        let port: UInt16
        var username: String?
        var credential: String?
        var testDescription: String { url }
    }

    @Test(arguments: [
        Good(url: "stun:example.org", kind: .stun, transport: .udp, host: "example.org", port: 3478),
        Good(url: "stun:example.org:19302", kind: .stun, transport: .udp, host: "example.org", port: 19302),
        Good(url: "STUN://example.org:19302", kind: .stun, transport: .udp, host: "example.org", port: 19302),
        Good(url: "stun:[2001:db8::1]:99", kind: .stun, transport: .udp, host: "2001:db8::1", port: 99),
        Good(url: "stun://[::1]", kind: .stun, transport: .udp, host: "::1", port: 3478),
        Good(
            url: "turn://u:p@example.org:3479?transport=tcp", kind: .turn, transport: .tcp, host: "example.org",
            port: 3479, username: "u", credential: "p"),
        Good(
            url: "turn:u:p@127.0.0.1", kind: .turn, transport: .udp, host: "127.0.0.1", port: 3478, username: "u",
            credential: "p"),
        Good(
            url: "turn://u%40x:p%3A%2f%C3%A9@h?transport=udp", kind: .turn, transport: .udp, host: "h", port: 3478,
            username: "u@x", credential: "p:/é"),
        Good(
            url: "turn://1700000000:user:a:b@h:1", kind: .turn, transport: .udp, host: "h", port: 1,
            username: "1700000000", credential: "user:a:b"),
        Good(
            url: "turns:u:p@example.org", kind: .turn, transport: .tls, host: "example.org", port: 5349, username: "u",
            credential: "p"),
        Good(
            url: "turns:u:p@example.org:443?transport=tcp", kind: .turn, transport: .tls, host: "example.org",
            port: 443,
            username: "u", credential: "p"),
        Good(
            url: "turn://u:p@h/?transport=udp", kind: .turn, transport: .udp, host: "h", port: 3478, username: "u",
            credential: "p"),
    ])
    func parses(_ good: Good) throws {
        let server = try ICEServer(url: good.url)
        #expect(server.kind == good.kind)
        #expect(server.transport == good.transport)
        #expect(server.host == good.host)
        #expect(server.port == good.port)
        #expect(server.username == good.username)
        #expect(server.credential == good.credential)
    }

    @Test(arguments: [
        ("", ICEServerError.malformed), ("stun", .malformed), ("stun:", .malformed), ("stun::3478", .malformed),
        ("stun:h:0", .malformed), ("stun:h:65536", .malformed), ("stun:h:-1", .malformed), ("stun:h:x", .malformed),
        ("stun:[::1", .malformed), ("stun:[h]:1", .malformed), ("stun:[::1]x", .malformed), ("stun:::1", .malformed),
        ("stun:h h", .malformed), ("stun:h\r\nX", .malformed), ("stun:h?transport=tcp", .unsupportedTransport),
        ("http://h", .unsupportedScheme), ("stuns:h", .unsupportedScheme), ("turn:h", .missingCredentials),
        ("turn://u@h", .missingCredentials), ("turn://:p@h", .missingCredentials),
        ("turn://u:p@h?transport=sctp", .unsupportedTransport), ("turn://u:p%@h", .malformed),
        ("turn://u:%zz@h", .malformed), ("turn://u:%00@h", .malformed), ("turn://u:%ff@h", .malformed),
        ("turn://u:p@h/x", .malformed), ("turn://u:p@", .malformed), ("stun:h;rm", .malformed),
    ])
    func refuses(_ url: String, _ error: ICEServerError) {
        #expect(throws: error) { try ICEServer(url: url) }
    }

    @Test
    func refusesAMegabyte() {
        #expect(throws: ICEServerError.malformed) {
            try ICEServer(url: "stun:" + String(repeating: "a", count: 1_000_000))
        }
    }

    @Test
    func argumentsWinOverTheURL() throws {
        let server = try ICEServer(url: "turn://u:p@h", username: "other", credential: "better")
        #expect(server.username == "other")
        #expect(server.credential == "better")
    }

    @Test
    func neverPrintsCredentials() throws {
        let server = try ICEServer(url: "turn://canaryuser:canarypass@[::1]:5?transport=tcp")
        #expect(server.description == "turn://<redacted>@[::1]:5?transport=tcp")
        var dumped = ""
        dump(server, to: &dumped)
        var nested = ""
        dump(ICEConfiguration(servers: [server], isControlling: true), to: &nested)
        for text in [
            "\(server)", String(reflecting: server), dumped, nested, "\([server])", "\(Optional(server) as Any)",
        ] {
            #expect(!text.contains("canary"))
        }
        for error in [ICEServerError.malformed, .unsupportedScheme, .unsupportedTransport, .missingCredentials] {
            #expect(!"\(error)".isEmpty)
        }
    }
}
