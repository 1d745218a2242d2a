import DecartProtocol
import TestSupport
import Testing

@Suite struct ProxyURLTests {
    @Test(
        arguments: [
            ("http://proxy.example:3128", "proxy.example", 3128, nil),
            ("HTTP://Proxy.Example/", "proxy.example", 80, nil),
            ("http://[2001:db8::1]:8080", "2001:db8::1", 8080, nil),
            ("http://us%3Aer:pass@proxy:1", nil, 0, nil),
            ("http://user:pass%40w@rd@proxy:3128", "proxy", 3128, "Basic dXNlcjpwYXNzQHdAcmQ="),
            ("http://user@proxy:3128", "proxy", 3128, "Basic dXNlcjo="),
            ("https://proxy:3128", nil, 0, nil), ("proxy:3128", nil, 0, nil), ("http://", nil, 0, nil),
            ("http://proxy:3128/path", nil, 0, nil), ("http://proxy:3128?a=b", nil, 0, nil),
            ("http://proxy:65536", nil, 0, nil), ("http://user:a%0ab@proxy:1", nil, 0, nil),
            ("http://u%4:p@proxy", nil, 0, nil),
        ] as [(String, String?, Int, String?)])
    func aURL(text: String, host: String?, port: Int, authorization: String?) {
        let url = try? ProxyURL(text)
        #expect(url?.host == host)
        #expect(url?.port ?? 0 == port)
        #expect(url?.authorization?.reveal() == authorization)
    }

    /// Neither a description nor an error has the user name or the password.
    @Test func credentialsStayHidden() throws {
        let url = try ProxyURL("http://canary:canary@proxy.example:3128")
        var dumped = ""
        dump(url, to: &dumped)
        for text in ["\(url)", "\(String(reflecting: url))", dumped] { #expect(!text.contains("canary"), "\(text)") }
        #expect("\(url)" == "http://<redacted>@proxy.example:3128")
        for text in ["ftp://canary:canary@proxy", "http://canary:canary@pro xy", "http://canary:%canary@proxy"] {
            let error = thrown(ProtocolError.self) { try ProxyURL(text) }
            #expect(error?.message.contains("canary") == false)
            #expect(error?.message.contains("http-proxy") == true)
        }
    }

    @Test(arguments: [
        ("127.0.0.1", false), ("localhost", false), ("::1", false), ("192.0.2.1", true), ("a.test", true),
    ])
    func loopbackNeedsNone(host: String, applies: Bool) throws {
        #expect(try ProxyURL("http://proxy:1").applies(to: host) == applies)
    }
}
