package struct HTTPRequestHead: Sendable, Equatable {
    package var method: String
    package var target: String
    package var fields: HTTPFields
    package var minorVersion = 1

    package init(method: String, target: String, fields: HTTPFields = [:]) {
        (self.method, self.target, self.fields) = (method, target, fields)
    }

    package var bytes: [UInt8] { fields.bytes(after: "\(method) \(target) HTTP/1.\(minorVersion)") }
}

package struct HTTPResponseHead: Sendable, Equatable {
    package var status: Int
    package var reason: String
    package var fields: HTTPFields
    package var minorVersion = 1

    /// Takes the reason phrase that RFC 9110 §15 has for the status.
    package init(status: Int, fields: HTTPFields = [:]) {
        (self.status, self.fields) = (status, fields)
        reason = Self.reasons[status] ?? ""
    }

    package var bytes: [UInt8] { fields.bytes(after: "HTTP/1.\(minorVersion) \(status) \(reason)") }

    private static let reasons = [
        100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
        206: "Partial Content", 301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified",
        307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
        402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
        407: "Proxy Authentication Required", 408: "Request Timeout", 409: "Conflict", 410: "Gone",
        411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large", 414: "URI Too Long",
        415: "Unsupported Media Type", 417: "Expectation Failed", 418: "I'm a teapot", 421: "Misdirected Request",
        422: "Unprocessable Content", 425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required",
        429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
        501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
        505: "HTTP Version Not Supported", 511: "Network Authentication Required",
    ]
}

extension HTTPFields {
    /// The head of a message. Control characters become blanks: a text of a user or a peer cannot add a line.
    fileprivate func bytes(after startLine: String) -> [UInt8] {
        var bytes: [UInt8] = []
        for line in CollectionOfOne(startLine) + all.map({ "\($0.name): \($0.value)" }) {
            bytes += line.utf8.map { $0.isForbiddenControl ? 0x20 : $0 }
            bytes += [0x0D, 0x0A]
        }
        return bytes + [0x0D, 0x0A]
    }
}
