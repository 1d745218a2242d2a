// HTTP responses: key responses of the user's backend, the service's responses to the WebSocket upgrade and its quota, and
// the locations that WHEP servers name. It starts behind NIO's parser. No error may contain the key or control characters.
import DecartProtocol
import DecartSession
import NIOHTTP1
import Signalling

private let canary = "canary-0123456789"

func check(_ error: SessionError) {
    precondition(!error.message.isEmpty && error.message.unicodeScalars.count < 1000)
    precondition(error.message.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) })
    precondition(!error.message.contains(canary) && !"\(error)".contains(canary))
    if let wait = error.retryAfter { precondition(wait >= .zero && wait <= .seconds(65_535)) }
}

/// Splits a status line, header fields and an empty line, more leniently than any real parser.
private func response(_ bytes: [UInt8]) -> (HTTPResponseHead, body: [UInt8]) {
    var lines: [String] = []
    var rest = bytes[...]
    while let end = rest.firstIndex(of: 10) {
        let line = String(decoding: rest[..<end], as: UTF8.self)
        rest = rest[(end + 1)...]
        if line == "\r" || line.isEmpty { break }
        lines.append(line.hasSuffix("\r") ? String(line.dropLast()) : line)
    }
    let status = lines.first.flatMap { $0.split(separator: " ").dropFirst().first }.flatMap { Int($0) } ?? 200
    var headers = HTTPHeaders()
    for line in lines.dropFirst().prefix(64) {
        let field = line.split(separator: ":", maxSplits: 1)
        // NIO accepts only ASCII names, and its parser passes no others.
        if field.count == 2, field[0].utf8.allSatisfy({ $0 < 0x80 }) {
            headers.add(name: String(field[0]), value: String(field[1].drop { $0 == " " }))
        }
    }
    let head = HTTPResponseHead(
        version: .http1_1, status: HTTPResponseStatus(statusCode: max(0, min(status, 999))), headers: headers)
    return (head, Array(rest))
}

func httpInput(_ bytes: [UInt8]) {
    let (head, body) = response(bytes)
    switch KeyAnswer(status: Int(head.status.code), body: body, host: "backend.example").result {
    case .success(let token):
        precondition("\(token.key)" == "<redacted>")
        precondition([token.sessionLimit, token.key.sessionLimit].allSatisfy { ($0 ?? .seconds(1)) > .zero })
    case .failure(let error): check(error)
    }
    guard let key = try? APIKey(canary), let base = try? ServiceURL(base: "ws://127.0.0.1:1") else {
        fatalError("the fuzzer's URL is invalid")
    }
    check(UpgradeRefusal(head: head, body: body, url: base.watchStream(key: key, room: "room")).error)
    if let server = try? HTTPURL(whep: "https://whep.example:8443/a/b?token=\(canary)") {
        for location in head.headers["Location"] {
            guard let url = server.resolving(location) else { continue }
            precondition(url.isSecure && url.requestTarget.hasPrefix("/"))
            for text in [url.requestTarget, url.hostHeader] {
                precondition(text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f })
            }
            precondition(location.contains(canary) || !url.requestTarget.contains(canary))
        }
    }
    if let quota = try? RealtimeQuota(decoding: body) { _ = quota.isUsedUp }
    if let room = try? LiveKitRoomInfo(decoding: body) { precondition("\(room.token)" == "<redacted>") }
}
