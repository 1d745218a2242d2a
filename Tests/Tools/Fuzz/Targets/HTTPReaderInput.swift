// Requests and responses as bytes. What is read may not depend on how the bytes are split, or be more than the limits
// allow, and a head that is written again is read as the same head.
import Network

/// What a reader makes of bytes until their end or an error.
struct HTTPOutcome<Head: HTTPHead>: Equatable {
    private(set) var messages: [(head: Head, body: [UInt8], isComplete: Bool)] = []
    private(set) var error: HTTPError?
    private(set) var rest: [UInt8] = []

    init(_ start: HTTPReader<Head>, _ pieces: some Sequence<ArraySlice<UInt8>>, end: Bool = true) {
        var reader = start
        var unread = 0
        do throws(HTTPError) {
            for piece in pieces {
                reader.append(piece)
                unread += piece.count
                while let event = try reader.next() { take(event, &unread) }
            }
            while end, let event = try reader.end() { take(event, &unread) }
        } catch { self.error = error }
        rest = reader.takeRest()
        if let error { check(repeating: error, in: reader) }
    }

    private mutating func take(_ event: HTTPEvent<Head>, _ unread: inout Int) {
        let isOpen = messages.last.map { !$0.isComplete } ?? false
        switch event {
        case .head(let head):
            precondition(!isOpen)
            messages.append((head, [], false))
        case .body(let piece):
            unread -= piece.count
            precondition(isOpen && !piece.isEmpty && unread >= 0)
            messages[messages.count - 1].body += piece
        case .end:
            precondition(isOpen)
            messages[messages.count - 1].isComplete = true
        }
    }

    private func check(repeating error: HTTPError, in start: HTTPReader<Head>) {
        var reader = start
        reader.append("GET / HTTP/1.0\r\n\r\n".utf8)
        do throws(HTTPError) {
            _ = try reader.next()
            fatalError("the error does not repeat")
        } catch { precondition(error == self.error) }
    }

    /// The rest after an error has what the pieces have brought until then.
    static func == (one: Self, other: Self) -> Bool {
        one.error == other.error && (one.error != nil || one.rest == other.rest)
            && one.messages.elementsEqual(other.messages) { $0 == $1 }
    }
}

extension HTTPOutcome {
    /// Reads the bytes as a whole, in pieces of sizes that depend on them, and one by one.
    static func ofAllSplits(_ reader: HTTPReader<Head>, _ bytes: [UInt8], _ limits: HTTPLimits) -> Self {
        let outcome = Self(reader, CollectionOfOne(bytes[...]))
        var pieces: [ArraySlice<UInt8>] = []
        var rest = bytes[...]
        while let first = rest.first {
            let size = 1 + Int((first &+ UInt8(truncatingIfNeeded: rest.count)) % 23)
            pieces.append(rest.prefix(size))
            rest = rest.dropFirst(size)
        }
        precondition(Self(reader, pieces) == outcome)
        if bytes.count <= 4096 { precondition(Self(reader, bytes.indices.map { bytes[$0...$0] }) == outcome) }
        for message in outcome.messages {
            let fields = message.head.fields.all
            precondition(fields.count <= limits.fieldCount)
            for field in fields {
                precondition(!field.name.isEmpty && field.name.utf8.allSatisfy { (0x21...0x7E).contains($0) })
                precondition(field.value.utf8.allSatisfy { $0 == 0x09 || $0 >= 0x20 && $0 != 0x7F })
            }
        }
        return outcome
    }
}

private let smallLimits: HTTPLimits = {
    var limits = HTTPLimits()
    (limits.headSize, limits.fieldCount, limits.interimCount) = (80, 3, 1)
    return limits
}()

/// For heads that are written again: fields may have got blanks, and replacement characters of three bytes.
private let largeLimits: HTTPLimits = {
    var limits = HTTPLimits()
    limits.headSize = 1 << 20
    return limits
}()

/// - Returns: the outcome for a client that has sent another request than HEAD or CONNECT.
func httpReadersInput(_ bytes: [UInt8]) -> HTTPOutcome<HTTPResponseHead> {
    for limits in [HTTPLimits(), smallLimits] {
        for message in HTTPOutcome.ofAllSplits(HTTPRequestReader(limits: limits), bytes, limits).messages {
            check(message.head)
        }
        for (answersHEAD, answersCONNECT) in [(true, false), (false, true)] {
            let reader = HTTPResponseReader(limits: limits, answersHEAD: answersHEAD, answersCONNECT: answersCONNECT)
            _ = HTTPOutcome.ofAllSplits(reader, bytes, limits)
        }
    }
    _ = HTTPOutcome.ofAllSplits(HTTPResponseReader(limits: smallLimits), bytes, smallLimits)
    let outcome = HTTPOutcome.ofAllSplits(HTTPResponseReader(), bytes, HTTPLimits())
    precondition(outcome.messages.count <= 1)
    for message in outcome.messages { check(message.head) }
    return outcome
}

private func check(_ head: HTTPRequestHead) {
    precondition(head.target.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F } && (0...1).contains(head.minorVersion))
    let again = HTTPOutcome(HTTPRequestReader(limits: largeLimits), CollectionOfOne(head.bytes[...]), end: false)
    precondition(again.messages.first?.head == head)
    guard WebSocketUpgrade.problem(of: head) == nil else { return }
    precondition(WebSocketUpgrade.isRequested(by: head))
    let response = WebSocketUpgrade.response(to: head, adding: [:])
    let key = head.fields.first("Sec-WebSocket-Key") ?? ""
    precondition(WebSocketUpgrade.problem(of: response, key: key) == nil)
}

private func check(_ head: HTTPResponseHead) {
    precondition((100...599).contains(head.status) && (0...1).contains(head.minorVersion))
    let again = HTTPOutcome(HTTPResponseReader(limits: largeLimits), CollectionOfOne(head.bytes[...]), end: false)
    precondition(again.messages.first?.head == head)
    _ = WebSocketUpgrade.problem(of: head, key: "dGhlIHNhbXBsZSBub25jZQ==")
}
