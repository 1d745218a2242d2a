import MediaSecurity

/// The opening handshake of a WebSocket (RFC 6455 §4) without extensions and subprotocols, as values.
package enum WebSocketUpgrade {
    package enum ResponseProblem: Sendable, Equatable {
        /// The status is not 101, or Upgrade, Connection or Sec-WebSocket-Accept is wrong.
        case header
        /// The server has selected an extension or subprotocol, and none was offered.
        case extensionOrProtocol
    }

    package enum RequestProblem: Sendable, Equatable {
        /// No request of HTTP/1.1 for an upgrade to WebSocket.
        case notAnUpgrade
        /// Not version 13. The response, with status 426, names it in Sec-WebSocket-Version (RFC 6455 §4.4).
        case version
        /// Not exactly one key, or not one of 16 bytes.
        case key
    }

    package static let version = "13"

    /// The fields that a client adds to its request.
    package static func request(key: String) -> HTTPFields {
        [
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": version,
        ]
    }

    package static func makeKey() -> String {
        base64((0..<16).map { _ in UInt8.random(in: 0...255) })
    }

    /// The value of Sec-WebSocket-Accept; empty if OpenSSL fails.
    package static func accept(for key: String) -> String {
        base64(sha1(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    }

    package static func problem(of head: HTTPResponseHead, key: String) -> ResponseProblem? {
        let accept = accept(for: key)
        guard head.status == 101, hasUpgrade(head.fields), head.fields["Sec-WebSocket-Accept"] == [accept],
            !accept.isEmpty
        else { return .header }
        let isSelecting = ["Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"].contains(where: head.fields.contains)
        return isSelecting ? .extensionOrProtocol : nil
    }

    /// Tells if a request asks for a WebSocket at all.
    package static func isRequested(by head: HTTPRequestHead) -> Bool {
        head.method == "GET" && hasUpgrade(head.fields)
    }

    package static func problem(of head: HTTPRequestHead) -> RequestProblem? {
        guard isRequested(by: head), head.minorVersion >= 1 else { return .notAnUpgrade }
        guard head.fields["Sec-WebSocket-Version"] == [version] else { return .version }
        let keys = head.fields["Sec-WebSocket-Key"]
        guard keys.count == 1, keys.allSatisfy(isKey) else { return .key }
        return nil
    }

    /// The response to a request without a problem.
    package static func response(to head: HTTPRequestHead, adding fields: HTTPFields = [:]) -> HTTPResponseHead {
        let key = head.fields.first("Sec-WebSocket-Key") ?? ""
        var all: HTTPFields = [
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept(for: key),
        ]
        for field in fields.all { all.add(field.name, field.value) }
        return HTTPResponseHead(status: 101, fields: all)
    }

    private static func hasUpgrade(_ fields: HTTPFields) -> Bool {
        fields.list("Connection").contains { HTTPFields.equal($0, "upgrade") }
            && fields.list("Upgrade").contains { HTTPFields.equal($0, "websocket") }
    }

    /// 16 bytes in base64: 22 digits, and two characters that pad them.
    private static func isKey(_ text: String) -> Bool {
        let digits = text.utf8.prefix(22)
        return text.utf8.count == 24 && text.hasSuffix("==")
            && digits.allSatisfy { Character(UnicodeScalar($0)).isBase64Digit }
    }
}

extension Character {
    fileprivate var isBase64Digit: Bool { isASCII && (isLetter || isNumber) || self == "+" || self == "/" }
}
