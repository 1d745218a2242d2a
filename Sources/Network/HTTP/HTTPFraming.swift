// The rules in which requests and responses differ: how a message starts, and how the end of its body is found
// (RFC 9112 §6.3).

/// How the body of a message ends.
package enum HTTPFraming: Sendable, Equatable {
    /// An interim response: another response follows.
    case interim
    case empty
    case length(Int)
    case chunked
    case untilEnd
}

package protocol HTTPHead: Sendable, Equatable {
    /// What is allowed in responses for the sake of old servers is an error in requests: a line that ends with a bare
    /// LF, a field that continues on the next line, and blanks after the size of a chunk.
    static var isRequest: Bool { get }
    /// Tells if a message can start with these bytes. They may be a part of a line.
    static func canStart(with bytes: ArraySlice<UInt8>) -> Bool

    var fields: HTTPFields { get set }

    init(startLine: ArraySlice<UInt8>) throws(HTTPError)
    func framing(answersHEAD: Bool, answersCONNECT: Bool) throws(HTTPError) -> HTTPFraming
}

extension HTTPRequestHead: HTTPHead {
    package static var isRequest: Bool { true }

    private static let maximumMethodSize = 32

    /// Empty lines may precede a request (RFC 9112 §2.2).
    package static func canStart(with bytes: ArraySlice<UInt8>) -> Bool {
        if bytes.first == 0x0D { return zip(bytes, [0x0D, 0x0A]).allSatisfy(==) }
        let method = bytes.prefix { $0 != 0x20 }
        return method.count <= maximumMethodSize && method.allSatisfy(\.isTokenCharacter)
            && (bytes.isEmpty || !method.isEmpty)
    }

    package init(startLine: ArraySlice<UInt8>) throws(HTTPError) {
        let parts = startLine.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, parts.allSatisfy({ !$0.isEmpty && !$0.contains(0x09) }) else {
            throw .malformed("a request line without method, target and version")
        }
        self.init(method: String(decoding: parts[0], as: UTF8.self), target: String(decoding: parts[1], as: UTF8.self))
        minorVersion = try minorHTTPVersion(parts[2])
    }

    /// Chunked is the only coding of a transfer that is understood, and the only one that is always understood.
    package func framing(answersHEAD: Bool, answersCONNECT: Bool) throws(HTTPError) -> HTTPFraming {
        guard minorVersion == 0 || fields.contains("Host") else { throw .malformed("no Host") }
        guard fields.contains("Transfer-Encoding") else {
            return try fields.contentLength.map { .length($0) } ?? .empty
        }
        guard minorVersion >= 1 else { throw .malformed("Transfer-Encoding in HTTP/1.0") }
        guard !fields.contains("Content-Length") else { throw .malformed("both Content-Length and Transfer-Encoding") }
        try fields.requireChunked()
        return .chunked
    }
}

extension HTTPResponseHead: HTTPHead {
    package static var isRequest: Bool { false }

    package static func canStart(with bytes: ArraySlice<UInt8>) -> Bool {
        zip(bytes, "HTTP/".utf8).allSatisfy(==)
    }

    /// Servers also leave out the reason phrase and the blank before it.
    package init(startLine: ArraySlice<UInt8>) throws(HTTPError) {
        let parts = startLine.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        let version = try minorHTTPVersion(parts.first ?? [])
        guard parts.count >= 2, parts[1].count == 3, let status = decimal(parts[1]), (100...599).contains(status) else {
            throw .malformed("no status from 100 to 599")
        }
        self.init(status: status)
        minorVersion = version
        reason = parts.count == 3 ? String(decoding: parts[2], as: UTF8.self) : ""
    }

    /// Chunked goes before Content-Length (RFC 9112 §6.3): a response that has both does no harm to a client that
    /// takes no other response from the connection.
    package func framing(answersHEAD: Bool, answersCONNECT: Bool) throws(HTTPError) -> HTTPFraming {
        switch status {
        case 101: return .empty
        case 100...199: return .interim
        case 200...299 where answersCONNECT: return .empty
        case 204, 304: return .empty
        default: break
        }
        guard !answersHEAD else { return .empty }
        guard fields.contains("Transfer-Encoding") else {
            return try fields.contentLength.map { .length($0) } ?? .untilEnd
        }
        try fields.requireChunked()
        return .chunked
    }
}

/// A version of HTTP/1 above 1.1 has the meaning of 1.1 (RFC 9110 §2.5).
private func minorHTTPVersion(_ bytes: ArraySlice<UInt8>) throws(HTTPError) -> Int {
    guard bytes.count == 8, bytes.starts(with: "HTTP/1.".utf8), let minor = decimal(bytes.suffix(1)) else {
        throw .malformed("a version that is not HTTP/1.0 or HTTP/1.1")
    }
    return min(minor, 1)
}

/// Digits and nothing else; nil also if the number is too large.
private func decimal(_ digits: some Collection<UInt8>) -> Int? {
    guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int(String(decoding: digits, as: UTF8.self))
}

extension HTTPFields {
    /// Equal values may be repeated (RFC 9110 §8.6).
    fileprivate var contentLength: Int? {
        get throws(HTTPError) {
            guard contains("Content-Length") else { return nil }
            let lengths = list("Content-Length").map { decimal($0.utf8) }
            guard let first = lengths.first, let length = first, lengths.allSatisfy({ $0 == length }) else {
                throw .malformed("an invalid Content-Length")
            }
            return length
        }
    }

    fileprivate func requireChunked() throws(HTTPError) {
        let codings = list("Transfer-Encoding")
        guard codings.count == 1, Self.equal(codings[0], "chunked") else {
            throw .malformed("a Transfer-Encoding that is not chunked")
        }
    }
}
