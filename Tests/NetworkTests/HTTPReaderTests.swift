import Testing

import Network

/// Bytes of a peer, and what a reader makes of them however they are split.
struct HTTPCase: Sendable, CustomTestStringConvertible {
    enum Outcome: Sendable {
        /// As `HTTPTranscript` describes it.
        case reads(String)
        case notHTTP, malformed, headTooLarge, truncated
    }

    var name: String
    var text: String
    var outcome: Outcome
    var closes = false
    var messages = Int.max
    var answersHEAD = false
    var answersCONNECT = false
    var limits = HTTPLimits()

    init(
        _ name: String, _ text: String, _ outcome: Outcome, closes: Bool = false, messages: Int = .max,
        answersHEAD: Bool = false, answersCONNECT: Bool = false, limits: HTTPLimits = HTTPLimits()
    ) {
        (self.name, self.text, self.outcome) = (name, text, outcome)
        (self.closes, self.messages, self.limits) = (closes, messages, limits)
        (self.answersHEAD, self.answersCONNECT) = (answersHEAD, answersCONNECT)
    }

    var testDescription: String { name }

    /// A request whose other line is `Host: a`.
    static func get(_ name: String, _ fields: String, _ outcome: Outcome) -> HTTPCase {
        HTTPCase(name, "POST / HTTP/1.1\r\nHost: a\r\n\(fields)", outcome)
    }

    func check(_ ways: [(way: String, transcript: HTTPTranscript)], sourceLocation: SourceLocation = #_sourceLocation) {
        for (way, transcript) in ways {
            let isRight =
                switch (outcome, transcript.error) {
                case (.reads(let text), nil): "\(transcript)" == text
                case (.notHTTP, .notHTTP), (.malformed, .malformed): true
                case (.headTooLarge, .headTooLarge), (.truncated, .truncated): true
                default: false
                }
            #expect(
                isRight && transcript == ways.first?.transcript, "\(name), \(way): \(transcript)",
                sourceLocation: sourceLocation)
        }
    }
}

@Suite struct HTTPReaderTests {
    static let smallLimits: HTTPLimits = {
        var limits = HTTPLimits()
        (limits.headSize, limits.fieldCount, limits.interimCount) = (64, 3, 2)
        return limits
    }()

    static let requests: [HTTPCase] = [
        HTTPCase("a request", "GET /x?y HTTP/1.1\r\nHost: a\r\n\r\n", .reads("GET /x?y 1.1 ; Host=a | end")),
        HTTPCase(
            "two requests at once", "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
            .reads("GET /1 1.1 ; Host=a | end | GET /2 1.1 ; Host=a | end"), closes: true),
        HTTPCase("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", .reads("GET / 1.0 | end")),
        HTTPCase("HTTP/1.1 without Host", "GET / HTTP/1.1\r\nA: b\r\n\r\n", .malformed),
        HTTPCase(
            "two Hosts are for the caller", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            .reads("GET / 1.1 ; Host=a ; Host=b | end")),
        HTTPCase("a later minor version", "GET / HTTP/1.7\r\nHost: a\r\n\r\n", .reads("GET / 1.1 ; Host=a | end")),
        HTTPCase("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .malformed),
        HTTPCase("HTTP/10.1", "GET / HTTP/10.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("http in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("HTTP/0.9", "GET /\r\n", .malformed),
        HTTPCase("no target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("a blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("a tab in the target", "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("a blank at the end", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", .malformed),
        HTTPCase("other targets", "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", .reads("OPTIONS * 1.1 ; Host= | end")),
        HTTPCase(
            "CONNECT and what follows it", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n\u{16}\u{3}",
            .reads(#"CONNECT a:1 1.1 ; Host=a:1 | end | rest "\u{16}\u{03}""#), messages: 1),
        HTTPCase(
            "empty lines before it", "\r\n\r\nGET / HTTP/1.0\r\n\r\n\r\n", .reads("GET / 1.0 | end"), closes: true),
        HTTPCase("only LF before it", "\nGET / HTTP/1.0\r\n\r\n", .notHTTP),
        HTTPCase("only CR before it", "\rGET / HTTP/1.0\r\n\r\n", .notHTTP),
        HTTPCase("TLS", "\u{16}\u{3}\u{1}\u{2}\0", .notHTTP),
        HTTPCase("a response", "HTTP/1.1 200 OK\r\n\r\n", .notHTTP),
        HTTPCase("a blank first", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", .notHTTP),
        HTTPCase("words", "EHLO\r\n", .notHTTP),
        HTTPCase("an endless method", String(repeating: "A", count: 33), .notHTTP),
        HTTPCase("nothing", "", .reads(""), closes: true),
        HTTPCase("the start of a request", "GET / HTTP/1.1\r\nHost: a\r\n", .truncated, closes: true),
        HTTPCase("the start of a method", "GE", .truncated, closes: true),
        .get(
            "blanks and tabs around values", "A: \t b \tc \t\r\nB:d\r\nC:\r\nD: \t\r\n\r\n",
            .reads("POST / 1.1 ; Host=a ; A=b \tc ; B=d ; C= ; D= | end")),
        .get("a value that is not ASCII", "A: \u{e9}\r\n\r\n", .reads("POST / 1.1 ; Host=a ; A=\u{e9} | end")),
        .get("a colon in a value", "A: b:c\r\n\r\n", .reads("POST / 1.1 ; Host=a ; A=b:c | end")),
        .get("a blank before the colon", "A : b\r\n\r\n", .malformed),
        .get("a blank in a name", "A b: c\r\n\r\n", .malformed),
        .get("an empty name", ": b\r\n\r\n", .malformed),
        .get("no colon", "A\r\n\r\n", .malformed),
        .get("a name that is not ASCII", "\u{e9}: b\r\n\r\n", .malformed),
        .get("parentheses in a name", "A(b): c\r\n\r\n", .malformed),
        .get("a folded field", "A: b\r\n c\r\n\r\n", .malformed),
        .get("NUL in a value", "A: b\0c\r\n\r\n", .malformed),
        .get("CR in a value", "A: b\rc\r\n\r\n", .malformed),
        .get("two CRs", "A: b\r\r\n\r\n", .malformed),
        .get("DEL in a value", "A: b\u{7f}c\r\n\r\n", .malformed),
        .get("a line that ends with LF", "A: b\n\r\n", .malformed),
        .get("a head that ends with LF", "A: b\r\n\n", .malformed),
        HTTPCase("a folded line first", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", .malformed),
        .get(
            "a length", "Content-Length: 3\r\n\r\nabc",
            .reads("POST / 1.1 ; Host=a ; Content-Length=3 | body abc | end")),
        .get("a length of 0", "content-length: 0\r\n\r\n", .reads("POST / 1.1 ; Host=a ; content-length=0 | end")),
        .get(
            "equal lengths", "Content-Length: 1, 1\r\nContent-Length: 01\r\n\r\nx",
            .reads("POST / 1.1 ; Host=a ; Content-Length=1, 1 ; Content-Length=01 | body x | end")),
        .get("other lengths", "Content-Length: 1\r\nContent-Length: 2\r\n\r\nabc", .malformed),
        .get("other lengths in a list", "Content-Length: 1, 2\r\n\r\nabc", .malformed),
        .get("a signed length", "Content-Length: +3\r\n\r\nabc", .malformed),
        .get("a negative length", "Content-Length: -3\r\n\r\nabc", .malformed),
        .get("no length", "Content-Length:\r\n\r\n", .malformed),
        .get("a hexadecimal length", "Content-Length: 0x3\r\n\r\n", .malformed),
        .get("two lengths with a blank", "Content-Length: 3 3\r\n\r\n", .malformed),
        .get("a length of 64 bits", "Content-Length: 9223372036854775808\r\n\r\n", .malformed),
        .get(
            "the largest length", "Content-Length: 9223372036854775807\r\n\r\nab",
            .reads("POST / 1.1 ; Host=a ; Content-Length=9223372036854775807 | part ab")),
        HTTPCase("a body that ends early", "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nab", .truncated, closes: true),
        .get(
            "a request behind a body", "Content-Length: 1\r\n\r\nxGET / HTTP/1.0\r\n\r\n",
            .reads("POST / 1.1 ; Host=a ; Content-Length=1 | body x | end | GET / 1.0 | end")),
        .get(
            "chunks", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n",
            .reads("POST / 1.1 ; Host=a ; Transfer-Encoding=chunked | body abc0123456789 | end")),
        .get(
            "Chunked in other letters", "transfer-encoding: , CHUNKED\t,\r\n\r\n0\r\n\r\n",
            .reads("POST / 1.1 ; Host=a ; transfer-encoding=, CHUNKED\t, | end")),
        .get(
            "extensions and trailers",
            "Transfer-Encoding: chunked\r\n\r\n1;a=b;c=\"d\"\r\nx\r\n0 ; e\r\nA: b\r\nContent-Length: 5\r\n\r\n",
            .reads("POST / 1.1 ; Host=a ; Transfer-Encoding=chunked | body x | end")),
        .get(
            "a request behind chunks", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
            .reads("POST / 1.1 ; Host=a ; Transfer-Encoding=chunked | end | GET / 1.0 | end")),
        .get("both lengths", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", .malformed),
        .get("a coding that is not last", "Transfer-Encoding: chunked, gzip\r\n\r\n", .malformed),
        .get("another coding", "Transfer-Encoding: gzip, chunked\r\n\r\n", .malformed),
        .get("chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", .malformed),
        .get("no coding", "Transfer-Encoding:\r\n\r\n", .malformed),
        .get("identity", "Transfer-Encoding: identity\r\n\r\n", .malformed),
        .get("a coding with vertical tab", "Transfer-Encoding: \u{b}chunked\r\n\r\n", .malformed),
        HTTPCase("chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", .malformed),
        .get("no size of a chunk", "Transfer-Encoding: chunked\r\n\r\n\r\n", .malformed),
        .get("a signed size", "Transfer-Encoding: chunked\r\n\r\n+1\r\n", .malformed),
        .get("a size with 0x", "Transfer-Encoding: chunked\r\n\r\n0x1\r\n", .malformed),
        .get("a size with a blank first", "Transfer-Encoding: chunked\r\n\r\n 1\r\n", .malformed),
        .get("a size with a blank last", "Transfer-Encoding: chunked\r\n\r\n1 \r\nx", .malformed),
        .get("a size of 64 bits", "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", .malformed),
        .get("a size of 68 bits", "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", .malformed),
        .get("a size that ends with LF", "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n", .malformed),
        .get("CR in an extension", "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\n", .malformed),
        .get("a chunk that ends with LF", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\n", .malformed),
        .get("a chunk longer than its size", "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", .malformed),
        .get("a chunk that ends with CR", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\ry", .malformed),
        .get("a trailer that is no field", "Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.0\r\n\r\n", .malformed),
        HTTPCase(
            "chunks that end early", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
            .truncated, closes: true),
    ]

    @Test(arguments: requests) func request(_ row: HTTPCase) {
        let reader = HTTPRequestReader(limits: row.limits)
        row.check(HTTPTranscript.all(reader, row.text, closes: row.closes, messages: row.messages))
    }

    static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    static let responses: [HTTPCase] = [
        HTTPCase(
            "a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            .reads("1.1 200 OK ; Content-Length=2 | body hi | end")),
        HTTPCase(
            "bytes behind the body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi, there",
            .reads(#"1.1 200 OK ; Content-Length=2 | body hi | end | rest ", there""#), closes: true),
        HTTPCase(
            "a body to the end", "HTTP/1.0 200 OK\r\n\r\nhi\r\n", .reads("1.0 200 OK | body hi\r\n | end"), closes: true
        ),
        HTTPCase("an empty body to the end", "HTTP/1.1 403 No\r\n\r\n", .reads("1.1 403 No | end"), closes: true),
        HTTPCase("a body that goes on", "HTTP/1.1 200 OK\r\n\r\nhi", .reads("1.1 200 OK | part hi")),
        HTTPCase("a body that ends early", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", .truncated, closes: true),
        HTTPCase("no bytes", "", .truncated, closes: true),
        HTTPCase("half a status line", "HTTP/1.1 2", .truncated, closes: true),
        HTTPCase("half a head", "HTTP/1.1 200 OK\r\nA: b\r\n", .truncated, closes: true),
        HTTPCase("no reason", "HTTP/1.1 404 \r\n\r\n", .reads("1.1 404  | end"), closes: true),
        HTTPCase("no blank behind the status", "HTTP/1.1 404\r\n\r\n", .reads("1.1 404  | end"), closes: true),
        HTTPCase(
            "a reason of many words", "HTTP/1.1 511 Log in: caf\u{e9} \r\n\r\n",
            .reads("1.1 511 Log in: caf\u{e9}  | end"),
            closes: true),
        HTTPCase("a later minor version", "HTTP/1.2 204 None\r\n\r\n", .reads("1.1 204 None | end")),
        HTTPCase("HTTP/2", "HTTP/2 200 OK\r\n\r\n", .malformed),
        HTTPCase("HTTP/3.0", "HTTP/3.0 200 OK\r\n\r\n", .malformed),
        HTTPCase("status 99", "HTTP/1.1 099 No\r\n\r\n", .malformed),
        HTTPCase("status 600", "HTTP/1.1 600 No\r\n\r\n", .malformed),
        HTTPCase("status 20", "HTTP/1.1 20 No\r\n\r\n", .malformed),
        HTTPCase("status 2000", "HTTP/1.1 2000 No\r\n\r\n", .malformed),
        HTTPCase("status +20", "HTTP/1.1 +20 No\r\n\r\n", .malformed),
        HTTPCase("no status", "HTTP/1.1\r\n\r\n", .malformed),
        HTTPCase("a control character in the reason", "HTTP/1.1 200 \u{1b}[1m\r\n\r\n", .malformed),
        HTTPCase("an alert of TLS", "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{28}", .notHTTP),
        HTTPCase("SSH", "SSH-2.0-OpenSSH_9.2\r\n", .notHTTP),
        HTTPCase("a page of HTTP/0.9", "<html>", .notHTTP),
        HTTPCase("an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", .notHTTP),
        HTTPCase("a word that starts like HTTP", "HTTPS", .notHTTP),
        HTTPCase(
            "LF alone", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
            .reads("1.1 200 OK ; Content-Length=2 | body hi | end")),
        HTTPCase(
            "a folded field", "HTTP/1.1 204 OK\r\nA: b\r\n \t c\r\n\t\r\n d\r\nB:\r\n e\r\n\r\n",
            .reads("1.1 204 OK ; A=b c d ; B=e | end")),
        HTTPCase("a folded line first", "HTTP/1.1 204 OK\r\n a: b\r\n\r\n", .malformed),
        HTTPCase("a blank before the colon", "HTTP/1.1 204 OK\r\nA : b\r\n\r\n", .malformed),
        HTTPCase("NUL in a value", "HTTP/1.1 204 OK\r\nA: \0\r\n\r\n", .malformed),
        HTTPCase("CR alone in a value", "HTTP/1.1 204 OK\r\nA: b\rB: c\r\n\r\n", .malformed),
        HTTPCase(
            "204 has no body", "HTTP/1.1 204 OK\r\nContent-Length: 3\r\n\r\n",
            .reads("1.1 204 OK ; Content-Length=3 | end")),
        HTTPCase(
            "304 has no body", "HTTP/1.1 304 OK\r\nContent-Length: 3\r\n\r\n",
            .reads("1.1 304 OK ; Content-Length=3 | end")),
        HTTPCase(
            "the response to HEAD has none", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
            .reads("1.1 200 OK ; Content-Length=3 | end"), answersHEAD: true),
        HTTPCase(
            "nor with chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            .reads("1.1 200 OK ; Transfer-Encoding=chunked | end"), answersHEAD: true),
        HTTPCase(
            "2xx to CONNECT", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\u{16}\u{3}",
            .reads(#"1.1 200 OK ; Content-Length=3 | end | rest "\u{16}\u{03}""#), answersCONNECT: true),
        HTTPCase(
            "others to CONNECT", "HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\nabc",
            .reads("1.1 407 No ; Content-Length=3 | body abc | end"), answersCONNECT: true),
        HTTPCase(
            "an upgrade, and a frame behind it", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nHTTP/",
            .reads(#"1.1 101 Switching Protocols ; Upgrade=websocket | end | rest "HTTP/""#), closes: true),
        HTTPCase(
            "interim responses",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 None\r\n\r\n",
            .reads("1.1 204 None | end"), limits: smallLimits),
        HTTPCase(
            "endless interim responses", String(repeating: "HTTP/1.1 102 Wait\r\n\r\n", count: 3), .headTooLarge,
            limits: smallLimits),
        HTTPCase("only an interim response", "HTTP/1.1 100 Continue\r\n\r\n", .truncated, closes: true),
        HTTPCase("other lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", .malformed),
        HTTPCase(
            "equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            .reads("1.1 200 OK ; Content-Length=1 ; Content-Length=1 | body a | end")),
        HTTPCase(
            "both lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            .reads("1.1 200 OK ; Content-Length=7 ; Transfer-Encoding=chunked | body a | end")),
        HTTPCase("another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", .malformed),
        HTTPCase(
            "chunks", chunked + "3 \r\nabc\r\n2;x\r\nde\r\n0\t\r\nA: b\r\n c\r\n\r\n",
            .reads("1.1 200 OK ; Transfer-Encoding=chunked | body abcde | end")),
        HTTPCase(
            "chunks with LF alone", chunked + "1\na\n0\n\n",
            .reads("1.1 200 OK ; Transfer-Encoding=chunked | body a | end")),
        HTTPCase("a chunk without its end", chunked + "1\r\nab", .malformed),
        HTTPCase("chunks that end early", chunked + "1\r\na\r\n0\r\n", .truncated, closes: true),
        HTTPCase("a size that is no number", chunked + "z\r\n", .malformed),
    ]

    @Test(arguments: responses) func response(_ row: HTTPCase) {
        let reader = HTTPResponseReader(
            limits: row.limits, answersHEAD: row.answersHEAD, answersCONNECT: row.answersCONNECT)
        row.check(HTTPTranscript.all(reader, row.text, closes: row.closes, messages: row.messages))
    }

    /// 64 bytes and three fields are allowed.
    static let limits: [HTTPCase] = {
        let fill = String(repeating: "x", count: 35)
        let chunked =
            "POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\nPOST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding:chunked\r\n\r\n"
        let read = "POST / 1.0 ; Content-Length=0 | end | POST / 1.1 ; Host= ; Transfer-Encoding=chunked"
        func row(_ name: String, _ text: String, _ outcome: HTTPCase.Outcome) -> HTTPCase {
            HTTPCase(name, text, outcome, limits: smallLimits)
        }
        return [
            row(
                "a head of the largest size", "GET / HTTP/1.0\r\nAbcdef: \(fill)x\r\n\r\n",
                .reads("GET / 1.0 ; Abcdef=\(fill)x | end")),
            row("a larger head", "GET / HTTP/1.0\r\nAbcdef: \(fill)xx\r\n\r\n", .headTooLarge),
            row("an endless target", "GET /\(fill)\(fill)", .headTooLarge),
            row("an endless field", "GET / HTTP/1.0\r\nAbcdef: \(fill)\(fill)", .headTooLarge),
            row("endless empty lines", String(repeating: "\r\n", count: 33), .headTooLarge),
            row("three fields", "GET / HTTP/1.0\r\nA:\r\nB:\r\nC:\r\n\r\n", .reads("GET / 1.0 ; A= ; B= ; C= | end")),
            row("four fields", "GET / HTTP/1.0\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n", .headTooLarge),
            row("an endless extension", chunked + "1;\(fill)\(fill)\(fill)", .headTooLarge),
            row("endless extensions", chunked + String(repeating: "1;\(fill)\r\nx\r\n", count: 4), .headTooLarge),
            row("an endless size", chunked + String(repeating: "0", count: 85), .headTooLarge),
            row(
                "many chunks", chunked + String(repeating: "001\r\nx\r\n", count: 30),
                .reads(read + " | part " + String(repeating: "x", count: 30))),
            row("an endless trailer", chunked + "0\r\nA: \(fill)\(fill)", .headTooLarge),
            row("endless trailers", chunked + "0\r\nA:\r\nB:\r\nC:\r\nD:\r\n", .headTooLarge),
            row("trailers within the limits", chunked + "0\r\nA:\r\nB:\r\nC:\r\n\r\n", .reads(read + " | end")),
        ]
    }()

    @Test(arguments: limits) func limit(_ row: HTTPCase) {
        row.check(HTTPTranscript.all(HTTPRequestReader(limits: row.limits), row.text, closes: false, messages: .max))
    }

    @Test func defaultLimits() {
        let fields = (0..<65).map { "F\($0): x\r\n" }
        let start = "HTTP/1.1 204 None\r\n"
        func error(_ text: String) -> HTTPError? { HTTPTranscript(HTTPResponseReader(), [Array(text.utf8)[...]]).error }
        #expect(error(start + fields.dropLast().joined() + "\r\n") == nil)
        #expect(error(start + fields.joined() + "\r\n") == .headTooLarge)
        #expect(error(start + "A: " + String(repeating: "x", count: 16 << 10)) == .headTooLarge)
        #expect(error(String(repeating: "HTTP/1.1 100 Go\r\n\r\n", count: 8) + start + "\r\n") == nil)
        #expect(error(String(repeating: "HTTP/1.1 100 Go\r\n\r\n", count: 9) + start + "\r\n") == .headTooLarge)
    }

    @Test func errorsRepeat() {
        var reader = HTTPRequestReader()
        reader.append("GET / HTTP/1.1\r\n\r\n".utf8)
        #expect(throws: HTTPError.malformed("no Host")) { try reader.next() }
        reader.append("GET / HTTP/1.0\r\n\r\n".utf8)
        #expect(throws: HTTPError.malformed("no Host")) { try reader.next() }
        #expect(throws: HTTPError.malformed("no Host")) { try reader.end() }
    }

    @Test func endReturnsWhatIsLeft() throws {
        var reader = HTTPResponseReader()
        reader.append("HTTP/1.1 200 OK\r\n\r\nhi".utf8)
        var events: [HTTPEvent<HTTPResponseHead>] = []
        while let event = try reader.end() { events.append(event) }
        #expect(events == [.head(HTTPResponseHead(status: 200)), .body(Array("hi".utf8)), .end])
    }

    /// Pieces come as soon as they are there, and are no larger than what came.
    @Test func bodiesComeInPieces() throws {
        var reader = HTTPRequestReader()
        reader.append("POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\na".utf8)
        #expect(try reader.next() != nil)
        #expect(try reader.next() == .body(Array("a".utf8)))
        #expect(try reader.next() == nil)
        reader.append("bc".utf8)
        #expect(try reader.next() == .body(Array("bc".utf8)))
        reader.append("de".utf8)
        #expect(try reader.next() == .body(Array("d".utf8)))
        #expect(try reader.next() == .end)
        #expect(reader.takeRest() == Array("e".utf8))
        #expect(try reader.end() == nil)
    }

    /// The next response on a connection is for a new reader.
    @Test func nextResponse() throws {
        var first = HTTPResponseReader(answersHEAD: true)
        first.append("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx".utf8)
        while try first.next() != nil {}
        let transcript = HTTPTranscript(HTTPResponseReader(), [first.takeRest()[...]])
        #expect("\(transcript)" == "1.1 404 No ; Content-Length=1 | body x | end")
    }
}
