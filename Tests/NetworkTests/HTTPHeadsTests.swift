import Testing

import Network

@Suite struct HTTPHeadsTests {
    @Test func requestBytes() {
        let head = HTTPRequestHead(method: "GET", target: "/x", fields: ["Host": "a", "Accept": "*/*"])
        #expect(String(decoding: head.bytes, as: UTF8.self) == "GET /x HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n")
    }

    @Test(arguments: [
        (200, "HTTP/1.1 200 OK\r\n\r\n"), (426, "HTTP/1.1 426 Upgrade Required\r\n\r\n"),
        (599, "HTTP/1.1 599 \r\n\r\n"),
    ])
    func responseBytes(status: Int, text: String) {
        #expect(String(decoding: HTTPResponseHead(status: status).bytes, as: UTF8.self) == text)
    }

    @Test func minorVersion() {
        var head = HTTPResponseHead(status: 404)
        head.minorVersion = 0
        #expect(head.bytes.starts(with: "HTTP/1.0 404 Not Found\r\n".utf8))
    }

    @Test func noTextAddsALine() {
        let request = HTTPRequestHead(method: "GET", target: "/\r\nA: b", fields: ["B\n": "c\r\n\r\nd\0\te"])
        #expect(String(decoding: request.bytes, as: UTF8.self) == "GET /  A: b HTTP/1.1\r\nB : c    d \te\r\n\r\n")
    }

    @Test func headsAreReadAsTheyWereWritten() throws {
        let head = HTTPRequestHead(method: "PATCH", target: "/r/1?a=b", fields: ["Host": "a:1", "If-Match": "\"e\""])
        var requests = HTTPRequestReader()
        requests.append(head.bytes)
        #expect(try requests.next() == .head(head))
        let answer = HTTPResponseHead(status: 201, fields: ["Location": "/r/1", "Content-Length": "0"])
        var responses = HTTPResponseReader()
        responses.append(answer.bytes)
        #expect(try responses.next() == .head(answer))
    }
}
