// Upgrades a connected (and, with TLS, verified) stream to a WebSocket: one HTTP request and one response, which accepts
// or is reported with its body. The request contains the key: it is logged nowhere, and sent only after TLS has verified
// the server.
import DecartProtocol
import DecartSession
import MediaSecurity
import Network

// Used only on the stream's thread.
final class UpgradeExchange {
    enum Outcome {
        /// The WebSocket is open; it delivers nothing before its `start`.
        case open(WebSocketConnection)
        case refused(SessionError)
        case failed(NetworkError)
    }

    static let maximumBodySize = 64 << 10

    private let url: ServiceURL
    private let stream: ByteStream
    private let limits: WebSocketLimits
    private let key = WebSocketUpgrade.makeKey()
    private var reader = HTTPResponseReader()
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []
    private var onOutcome: ((Outcome) -> Void)?

    /// - Parameter onOutcome: called once. Unless the WebSocket is open, the caller closes the stream.
    init(
        _ url: ServiceURL, over stream: ByteStream, userAgent: String, limits: WebSocketLimits,
        onOutcome: @escaping (Outcome) -> Void
    ) {
        (self.url, self.stream, self.limits, self.onOutcome) = (url, stream, limits, onOutcome)
        stream.onEvent = { self.received($0) }
        var fields: HTTPFields = ["Host": url.hostHeader, "User-Agent": userAgent]
        for field in WebSocketUpgrade.request(key: key).all { fields.add(field.name, field.value) }
        if let bearer = url.bearer { fields.add("Authorization", "Bearer " + bearer.reveal()) }
        stream.write(HTTPRequestHead(method: "GET", target: url.requestTarget, fields: fields).bytes)
    }

    private func received(_ event: ByteStream.Event) {
        do throws(HTTPError) {
            switch event {
            case .received(let bytes):
                reader.append(bytes)
                while onOutcome != nil, let part = try reader.next() { took(part) }
            // A response whose body ends with the connection is complete; anything less is a lost connection.
            case .ended(let error):
                if error == nil { while onOutcome != nil, let part = try reader.end() { took(part) } }
                if head == nil { finish(.failed(error ?? .ended)) } else { refuse() }
            case .connected, .secured, .writable: break
            }
        } catch {
            // A refusal whose body is cut short says more than the error in the body.
            if head == nil { finish(.failed(.http(error))) } else { refuse() }
        }
    }

    private func took(_ part: HTTPEvent<HTTPResponseHead>) {
        switch part {
        case .head(let head): self.head = head
        case .body(let part):
            body += part.prefix(Self.maximumBodySize - body.count)
            if body.count >= Self.maximumBodySize { refuse() }
        case .end: head?.status == 101 ? accept() : refuse()
        }
    }

    private func refuse() {
        guard let head else { return }
        finish(.refused(UpgradeRefusal(head: head, body: body, url: url).error))
    }

    /// RFC 6455 §4.1: verifies the accept hash and the fields, and refuses extensions and subprotocols.
    private func accept() {
        guard let head else { return }
        switch WebSocketUpgrade.problem(of: head, key: key) {
        case nil:
            let rest = reader.takeRest()
            finish(.open(WebSocketConnection(stream, as: .client, limits: limits, rest: rest)))
        case .header: invalid("the Upgrade, Connection or Sec-WebSocket-Accept header is wrong")
        case .extensionOrProtocol: invalid("it selects an extension or subprotocol that was not offered")
        }
    }

    private func invalid(_ reason: String) {
        let error = SessionError(
            .webSocket,
            "\(url.host) sent an invalid WebSocket upgrade: \(reason). Check for a proxy that changes the connection.",
            stage: .upgrade)
        finish(.refused(error))
    }

    private func finish(_ outcome: Outcome) {
        guard let onOutcome else { return }
        self.onOutcome = nil
        if case .open = outcome {} else { stream.onEvent = nil }
        onOutcome(outcome)
    }
}
