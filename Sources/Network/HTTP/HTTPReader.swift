// Reads HTTP/1.1 (RFC 9112) and HTTP/1.0: bytes go in, events come out. It knows no socket and no clock. What it
// returns does not depend on how the bytes are split.

package struct HTTPLimits: Sendable {
    package var fieldCount = 64
    /// Largest size of a whole head with its start line, in bytes. The extensions of all chunks and the trailers of a body have the
    /// same limit together.
    package var headSize = 16 << 10
    /// Largest number of responses with a status of 1xx before the final one.
    package var interimCount = 8

    package init() {}
}

package enum HTTPError: Error, Sendable, Equatable {
    /// The first bytes are not those of a request or response.
    case notHTTP
    /// The text is for logs, and quotes nothing of the peer.
    case malformed(String)
    case headTooLarge
    /// The connection has ended before the message.
    case truncated
}

package enum HTTPEvent<Head: Sendable & Equatable>: Sendable, Equatable {
    case head(Head)
    /// A piece, never empty and at most as large as what was appended.
    case body([UInt8])
    case end
}

/// Reads the requests of a connection, one after another. After a request that the server answers with 101, or with 2xx
/// to CONNECT, the caller takes the rest instead of the next event.
package typealias HTTPRequestReader = HTTPReader<HTTPRequestHead>

/// Reads the response to one request; the next response on the connection is for a new reader, which gets the rest.
/// Interim responses are left out. One of 101, and one of 2xx to CONNECT, have no body.
package typealias HTTPResponseReader = HTTPReader<HTTPResponseHead>

package struct HTTPReader<Head: HTTPHead>: Sendable {
    private enum State: Sendable {
        case startLine
        /// The head is without its fields.
        case fields(Head)
        case body(remaining: Int, isChunk: Bool)
        case bodyUntilEnd
        case chunkSize
        case chunkEnd
        case trailers
        case end
        case finished
        case failed(HTTPError)
    }

    /// Lines with the size of a chunk have this many bytes beside the limit. Nothing needs more that has no extension.
    private static var freeChunkLineSize: Int { 20 }
    /// The bytes of a start line that are checked before it is complete: more than the longest method.
    private static var checkedStartSize: Int { 40 }

    private let limits: HTTPLimits
    private let answersHEAD: Bool
    private let answersCONNECT: Bool
    private var state = State.startLine
    private var buffer: [UInt8] = []
    /// Index in `buffer` of the first byte that is not read.
    private var position = 0
    /// Bytes after `position` that have no line feed.
    private var scanned = 0
    /// Bytes that the head, or the extensions and trailers, may still have.
    private var remainingSize: Int
    /// The fields of the head or, after it, of the trailers.
    private var fields = HTTPFields()
    private var interims = 0

    /// - Parameter answersHEAD: with `answersCONNECT`, the method of the request that a response answers.
    package init(limits: HTTPLimits = HTTPLimits(), answersHEAD: Bool = false, answersCONNECT: Bool = false) {
        (self.limits, self.answersHEAD, self.answersCONNECT) = (limits, answersHEAD, answersCONNECT)
        remainingSize = limits.headSize
    }

    package mutating func append(_ bytes: some Sequence<UInt8>) {
        // Each byte is moved at most once for each byte that was read.
        if position >= buffer.count - position {
            buffer.removeSubrange(..<position)
            position = 0
        }
        buffer += bytes
    }

    /// The next event; nil: it needs more bytes, or the response has ended. After an error it throws the same error.
    package mutating func next() throws(HTTPError) -> HTTPEvent<Head>? {
        do throws(HTTPError) {
            return try read()
        } catch {
            state = .failed(error)
            throw error
        }
    }

    /// The connection has ended: called until it returns nil, it returns the events that are left.
    package mutating func end() throws(HTTPError) -> HTTPEvent<Head>? {
        if let event = try next() { return event }
        switch state {
        case .finished: return nil
        case .startLine where Head.isRequest && position == buffer.count: return nil
        case .bodyUntilEnd:
            state = .finished
            return .end
        default:
            state = .failed(.truncated)
            throw .truncated
        }
    }

    /// The bytes that are not read, for instance those after an upgrade.
    package mutating func takeRest() -> [UInt8] {
        let rest = Array(buffer[position...])
        (buffer, position, scanned) = ([], 0, 0)
        return rest
    }

    private mutating func read() throws(HTTPError) -> HTTPEvent<Head>? {
        while true {
            switch state {
            case .startLine:
                let start = buffer[position...].prefix(min(max(remainingSize, 0), Self.checkedStartSize))
                guard Head.canStart(with: start) else { throw .notHTTP }
                guard let line = try readLine() else { return nil }
                if !line.isEmpty { state = .fields(try Head(startLine: line)) }
            case .fields(let head):
                guard let line = try readLine() else { return nil }
                guard line.isEmpty else {
                    try readField(line)
                    continue
                }
                if let head = try readBody(after: head) { return .head(head) }
            case .body(let remaining, let isChunk):
                let piece = take(remaining)
                guard !piece.isEmpty else { return nil }
                let rest = remaining - piece.count
                state = rest > 0 ? .body(remaining: rest, isChunk: isChunk) : isChunk ? .chunkEnd : .end
                return .body(piece)
            case .bodyUntilEnd:
                let piece = take(.max)
                return piece.isEmpty ? nil : .body(piece)
            case .chunkSize:
                guard let line = try readLine(freeSize: Self.freeChunkLineSize) else { return nil }
                let size = try Self.chunkSize(line)
                state = size > 0 ? .body(remaining: size, isChunk: true) : .trailers
            case .chunkEnd:
                guard try readChunkEnd() else { return nil }
                state = .chunkSize
            case .trailers:
                guard let line = try readLine() else { return nil }
                if line.isEmpty { state = .end } else { try readField(line) }
            case .end:
                state = Head.isRequest ? .startLine : .finished
                startCounting()
                return .end
            case .finished: return nil
            case .failed(let error): throw error
            }
        }
    }

    /// - Returns: nil if the head is one of an interim response.
    private mutating func readBody(after start: Head) throws(HTTPError) -> Head? {
        var head = start
        head.fields = fields
        startCounting()
        switch try head.framing(answersHEAD: answersHEAD, answersCONNECT: answersCONNECT) {
        case .interim:
            interims += 1
            guard interims <= limits.interimCount else { throw .headTooLarge }
            state = .startLine
            return nil
        case .empty, .length(0): state = .end
        case .length(let length): state = .body(remaining: length, isChunk: false)
        case .chunked: state = .chunkSize
        case .untilEnd: state = .bodyUntilEnd
        }
        return head
    }

    private mutating func startCounting() {
        fields = [:]
        remainingSize = limits.headSize
    }

    private mutating func take(_ limit: Int) -> [UInt8] {
        let piece = Array(buffer[position...].prefix(limit))
        position += piece.count
        return piece
    }

    /// Reads a line without its end; nil: it is not complete. Responses may end lines with LF alone (RFC 9112 §2.2).
    /// In requests that is an error, because proxies and servers that take it for different things have let requests
    /// through that were hidden in others.
    private mutating func readLine(freeSize: Int = 0) throws(HTTPError) -> ArraySlice<UInt8>? {
        let end = buffer[(position + scanned)...].firstIndex(of: 0x0A)
        // The size is checked first, for a part of a line as for a whole one: it must not matter where bytes are split.
        scanned = (end.map { $0 + 1 } ?? buffer.count) - position
        guard scanned - freeSize <= remainingSize else { throw .headTooLarge }
        guard let end else { return nil }
        var line = buffer[position..<end]
        remainingSize -= max(scanned - freeSize, 0)
        (position, scanned) = (end + 1, 0)
        if line.last == 0x0D {
            line.removeLast()
        } else if Head.isRequest {
            throw .malformed("a line that ends with LF alone")
        }
        guard !line.contains(where: \.isForbiddenControl) else { throw .malformed("a control character in a line") }
        return line
    }

    private mutating func readField(_ line: ArraySlice<UInt8>) throws(HTTPError) {
        if line.first?.isBlank == true {
            let text = String(decoding: line.trimmingBlanks, as: UTF8.self)
            guard !Head.isRequest, fields.continueLast(text) else { throw .malformed("a folded field") }
            return
        }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
            line[..<colon].allSatisfy(\.isTokenCharacter)
        else { throw .malformed("a field without a valid name") }
        guard fields.all.count < limits.fieldCount else { throw .headTooLarge }
        let value = line[(colon + 1)...].trimmingBlanks
        fields.add(String(decoding: line[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self))
    }

    /// - Returns: false if more bytes are needed.
    private mutating func readChunkEnd() throws(HTTPError) -> Bool {
        let rest = buffer[position...].prefix(2)
        if rest.first == 0x0A && !Head.isRequest {
            position += 1
            return true
        }
        guard zip(rest, [0x0D, 0x0A]).allSatisfy(==) else { throw .malformed("a chunk longer than its size") }
        guard rest.count == 2 else { return false }
        position += 2
        return true
    }

    /// Old servers pad the size with blanks.
    private static func chunkSize(_ line: ArraySlice<UInt8>) throws(HTTPError) -> Int {
        let digits = line.prefix { Character(UnicodeScalar($0)).isHexDigit }
        let rest = line[digits.endIndex...]
        guard let size = Int(String(decoding: digits, as: UTF8.self), radix: 16),
            rest.isEmpty || rest.trimmingBlanks.first == UInt8(ascii: ";")
                || !Head.isRequest && rest.trimmingBlanks.isEmpty
        else { throw .malformed("an invalid size of a chunk") }
        return size
    }
}
