import EventLoopThreads

/// The server's end of HTTP/1.1 over an accepted stream, for one request, which becomes an answer or a WebSocket.
// @unchecked: used only on the stream's thread.
package final class HTTPServerConnection: @unchecked Sendable {
    package enum Event {
        /// The owner may answer, upgrade or `hold` at once; otherwise the body follows.
        case head(HTTPRequestHead)
        case body([UInt8])
        case end
        /// The peer has ended the connection, or it has failed. The last event.
        case ended
    }

    /// Time for the peer to end its direction after an answer.
    package static let closeLimit = Duration.milliseconds(500)
    /// Bytes that may follow while the request waits for its answer; more of them wait at the peer, whose end is then not
    /// noticed.
    private static let maximumRest = 64 << 10

    package let stream: ByteStream
    package var onEvent: ((Event) -> Void)?
    private var reader: HTTPRequestReader
    private var head: HTTPRequestHead?
    private var isHeld = false
    private var rest = 0

    /// Takes over the stream's events, and starts it.
    package init(_ stream: ByteStream, limits: HTTPLimits = HTTPLimits(), onEvent: @escaping (Event) -> Void) {
        (self.stream, self.onEvent) = (stream, onEvent)
        reader = HTTPRequestReader(limits: limits)
        stream.onEvent = { self.received($0) }
        stream.start()
    }

    private func received(_ event: ByteStream.Event) {
        switch event {
        case .received(let bytes):
            reader.append(bytes)
            proceed()
            guard isHeld, onEvent != nil else { return }
            rest += bytes.count
            if rest > Self.maximumRest { stream.setReading(false) }
        case .ended: take()?(.ended)
        case .connected, .secured, .writable: break
        }
    }

    private func proceed() {
        do throws(HTTPError) {
            while !isHeld, let onEvent, let event = try reader.next() {
                switch event {
                case .head(let head):
                    self.head = head
                    onEvent(.head(head))
                case .body(let part): onEvent(.body(part))
                case .end:
                    // One request: what follows waits for an upgrade, or is dropped with the connection.
                    isHeld = true
                    onEvent(.end)
                }
            }
        } catch {
            let onEvent = take()
            let status = error == .headTooLarge ? 431 : 400
            let head = HTTPResponseHead(status: status, fields: ["Connection": "close", "Content-Length": "0"])
            stream.write(head.bytes)
            stream.finish(within: Self.closeLimit)
            onEvent?(.ended)
        }
    }

    private func take() -> ((Event) -> Void)? {
        defer { onEvent = nil }
        return onEvent
    }

    // MARK: Decisions

    /// Delivers nothing more but the end.
    package func hold() { isHeld = true }

    /// Answers, and ends the connection. No event follows. The answer to HEAD has no body (RFC 9110 §9.3.2).
    package func answer(_ head: HTTPResponseHead, body: [UInt8]) {
        guard onEvent != nil else { return }
        onEvent = nil
        stream.write(head.bytes + (self.head?.method == "HEAD" ? [] : body))
        stream.finish(within: Self.closeLimit)
    }

    /// Closes at once. No event follows.
    package func close() {
        onEvent = nil
        stream.close()
    }

    /// Gives the stream up without an answer. No event follows.
    /// - Returns: bytes that have followed the head.
    package func detach() -> [UInt8] {
        onEvent = nil
        stream.onEvent = nil
        stream.setReading(true)
        return reader.takeRest()
    }

    /// Accepts the upgrade to a WebSocket that `head` requests. No event of this object follows.
    package func upgrade(adding fields: HTTPFields = [:], limits: WebSocketLimits) -> WebSocketConnection? {
        guard let head, onEvent != nil else { return nil }
        let rest = detach()
        stream.write(WebSocketUpgrade.response(to: head, adding: fields).bytes)
        return WebSocketConnection(stream, as: .server, limits: limits, rest: rest)
    }
}
