import Testing

import Network

@Suite struct WebSocketUpgradeTests {
    /// RFC 6455 §1.3.
    static let key = "dGhlIHNhbXBsZSBub25jZQ=="
    static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

    static let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]

    @Test func example() { #expect(WebSocketUpgrade.accept(for: Self.key) == Self.accept) }

    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func base64OfRFC4648(text: String, code: String) { #expect(base64(Array(text.utf8)) == code) }

    @Test func wholeAlphabet() {
        #expect(base64([0xFB, 0xEF, 0xBE, 0xFF, 0xFF, 0xFF, 0, 0x10, 0x83]) == "++++////ABCD")
    }

    @Test func ownRequestsAndResponses() {
        let key = WebSocketUpgrade.makeKey()
        #expect(key != WebSocketUpgrade.makeKey())
        var fields = WebSocketUpgrade.request(key: key)
        fields.set("Host", "a")
        let request = HTTPRequestHead(method: "GET", target: "/", fields: fields)
        #expect(WebSocketUpgrade.isRequested(by: request))
        #expect(WebSocketUpgrade.problem(of: request) == nil)
        let response = WebSocketUpgrade.response(to: request, adding: ["Server": "b"])
        #expect(response.status == 101 && response.reason == "Switching Protocols")
        #expect(response.fields.first("Server") == "b")
        #expect(WebSocketUpgrade.problem(of: response, key: key) == nil)
        #expect(WebSocketUpgrade.problem(of: response, key: Self.key) == .header)
    }

    struct RequestRow: Sendable, CustomTestStringConvertible {
        var name: String
        var fields: [(String, String)]
        var problem: WebSocketUpgrade.RequestProblem?
        var method = "GET"
        var minorVersion = 1
        var testDescription: String { name }

        init(
            _ name: String, _ upgrade: [(String, String)] = WebSocketUpgradeTests.upgrade,
            version: [String] = ["13"], key: [String] = [WebSocketUpgradeTests.key], method: String = "GET",
            minorVersion: Int = 1, gives problem: WebSocketUpgrade.RequestProblem? = nil
        ) {
            (self.name, self.problem, self.method, self.minorVersion) = (name, problem, method, minorVersion)
            fields = upgrade + version.map { ("sec-websocket-version", $0) } + key.map { ("SEC-WEBSOCKET-KEY", $0) }
        }
    }

    static let requests = [
        RequestRow("plain"),
        RequestRow("a list", [("connection", "keep-alive, Upgrade"), ("upgrade", "h2c,\tWebSocket")]),
        RequestRow(
            "several fields",
            [
                ("Connection", "keep-alive"), ("Upgrade", "h2c"), ("CONNECTION", "\tupgrade ,"),
                ("Upgrade", "WEBSOCKET"),
            ]),
        RequestRow("no Connection", [("Upgrade", "websocket")], gives: .notAnUpgrade),
        RequestRow("another Connection", [("Connection", "Upgrades"), ("Upgrade", "websocket")], gives: .notAnUpgrade),
        RequestRow("no Upgrade", [("Connection", "Upgrade")], gives: .notAnUpgrade),
        RequestRow("another Upgrade", [("Connection", "Upgrade"), ("Upgrade", "websocket/13")], gives: .notAnUpgrade),
        RequestRow(
            "words without a comma", [("Connection", "keep-alive Upgrade"), ("Upgrade", "websocket")],
            gives: .notAnUpgrade),
        RequestRow("POST", method: "POST", gives: .notAnUpgrade),
        RequestRow("HTTP/1.0", minorVersion: 0, gives: .notAnUpgrade),
        RequestRow("version 8", version: ["8"], gives: .version),
        RequestRow("no version", version: [], gives: .version),
        RequestRow("two versions", version: ["13", "8"], gives: .version),
        RequestRow("no key", key: [], gives: .key),
        RequestRow("two keys", key: [key, key], gives: .key),
        RequestRow("a short key", key: ["AAAA"], gives: .key),
        RequestRow("a key of 17 bytes", key: ["AAAAAAAAAAAAAAAAAAAAAAA="], gives: .key),
        RequestRow("a key of 18 bytes", key: ["AAAAAAAAAAAAAAAAAAAAAAAA"], gives: .key),
        RequestRow("a key that is no base64", key: ["AAAAAAAAAA-AAAAAAAAAAA=="], gives: .key),
        RequestRow("an empty key", key: [""], gives: .key),
        RequestRow("a key that is not ASCII", key: ["\u{e9}AAAAAAAAAAAAAAAAAAAA=="], gives: .key),
    ]

    @Test(arguments: requests) func request(_ row: RequestRow) {
        var head = HTTPRequestHead(method: row.method, target: "/", fields: HTTPFields(row.fields))
        head.minorVersion = row.minorVersion
        #expect(WebSocketUpgrade.problem(of: head) == row.problem)
    }

    struct ResponseRow: Sendable, CustomTestStringConvertible {
        var name: String
        var fields: [(String, String)]
        var status: Int
        var problem: WebSocketUpgrade.ResponseProblem?
        var testDescription: String { name }

        init(
            _ name: String, _ upgrade: [(String, String)] = WebSocketUpgradeTests.upgrade,
            accept: [String] = [WebSocketUpgradeTests.accept], status: Int = 101,
            gives problem: WebSocketUpgrade.ResponseProblem? = nil
        ) {
            (self.name, self.status, self.problem) = (name, status, problem)
            fields = upgrade + accept.map { ("Sec-WebSocket-Accept", $0) }
        }
    }

    static let responses = [
        ResponseRow("plain"),
        ResponseRow("other letters", [("CONNECTION", "UPGRADE"), ("upgrade", "WebSocket")]),
        ResponseRow(
            "lists", [("Connection", "keep-alive"), ("Connection", "close ,upgrade"), ("Upgrade", "websocket")]),
        ResponseRow("no Connection", [("Upgrade", "websocket")], gives: .header),
        ResponseRow("another Upgrade", [("Connection", "Upgrade"), ("Upgrade", "h2c")], gives: .header),
        ResponseRow("no accept", accept: [], gives: .header),
        ResponseRow("two accepts", accept: [accept, accept], gives: .header),
        ResponseRow("an accept in other letters", accept: [accept.lowercased()], gives: .header),
        ResponseRow("status 200", status: 200, gives: .header),
        ResponseRow(
            "an extension", upgrade + [("sec-websocket-extensions", "x-webkit")], gives: .extensionOrProtocol),
        ResponseRow("a subprotocol", upgrade + [("Sec-WebSocket-Protocol", "chat")], gives: .extensionOrProtocol),
    ]

    @Test(arguments: responses) func response(_ row: ResponseRow) {
        let head = HTTPResponseHead(status: row.status, fields: HTTPFields(row.fields))
        #expect(WebSocketUpgrade.problem(of: head, key: Self.key) == row.problem)
    }

    @Test func responseToARequestWithoutAKey() {
        #expect(WebSocketUpgrade.response(to: HTTPRequestHead(method: "GET", target: "/")).status == 101)
    }
}
