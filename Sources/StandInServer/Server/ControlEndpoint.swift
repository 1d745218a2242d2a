// Controls a running stand-in over HTTP, for tests in other processes and languages. It listens on loopback only, on
// its own port, so that it still answers while the service itself refuses connections or breaks TLS. It rejects
// browsers, so that no web page can control it.
import DecartProtocol
import Dispatch
import EventLoopThreads
import Network

final class ControlEndpoint: Sendable {
    /// Bounds what a local program can take: each request gets a queue of its own, and bodies are kept in memory.
    private static let maximumConnectionCount = SessionWait.maximumCount + 64

    private let listener: Listener
    private let connections: OpenConnections

    var port: Int { listener.port }

    init(port: Int, on thread: NetworkThread, of server: StandInServer) throws(NetworkError) {
        let connections = OpenConnections(limit: Self.maximumConnectionCount)
        self.connections = connections
        listener = try Listeners.listen("127.0.0.1", port, on: thread) { [weak server] stream in
            guard !connections.isFull else { return stream.close() }
            connections.add(
                ClientConnection(stream) { connection, head, body in
                    ControlExchange(server, connection).respond(to: head, body)
                })
        }
    }

    /// Frees the port and ends all connections. Blocks.
    func close() {
        listener.close()
        connections.closeAll(within: .seconds(2))
    }
}

/// One request and its answer.
// @unchecked: used on its connection's thread only.
private final class ControlExchange: @unchecked Sendable {
    private static let maximumTargetSize = 32 << 10

    private weak var server: StandInServer?
    private let connection: ClientConnection

    init(_ server: StandInServer?, _ connection: ClientConnection) {
        (self.server, self.connection) = (server, connection)
    }

    /// - Parameter body: nil: too large.
    func respond(to head: HTTPRequestHead, _ body: [UInt8]?) {
        // nil: there is no page, and browsers are rejected.
        let page = server?.pageAccess
        if let page, WebSocketUpgrade.problem(of: head) == nil, watch(head, page) { return }
        guard head.target.utf8.count <= Self.maximumTargetSize else {
            return respond(HTTPAnswer(error: "the URL is longer than 32 KiB", status: 414))
        }
        guard let body else { return respond(.init(413, "the body is larger than 64 KiB")) }
        // DNS rebinding: a page whose host name resolves to this machine reads the answers as same-origin, without
        // `Origin`.
        guard BrowserGuard.namesThisMachine(head.fields) else {
            return respond(.init(403, "the Host of the request is no loopback name or address"))
        }
        if PageAccess.isBrowser(head.fields) || (page != nil && head.target.hasPrefix("/page/")) {
            guard let page else { return respond(.init(403, "not for browsers")) }
            if let refusal = page.refusal(of: head) { return respond(refusal) }
        }
        let request = ControlRequest(
            method: head.method, target: head.target, body: String(decoding: body, as: UTF8.self),
            host: head.host ?? "")
        // Leave the thread: some requests block until sockets are closed or bound. A serial queue gets a thread at
        // once; the global queue has only as many as the machine has cores.
        DispatchQueue(label: "decart-standin.control").async { [self, weak server] in
            let reply = server.map(request.reply) ?? .answer(HTTPAnswer(503, "the stand-in stops"))
            connection.thread.async { [self] in
                guard !connection.isClosing else { return }
                switch reply {
                case .answer(let answer): respond(answer)
                case .wait(let query): wait(for: query)
                }
            }
        }
    }

    /// Opens a WebSocket of the page, which shows a side of a session.
    private func watch(_ head: HTTPRequestHead, _ page: PageAccess) -> Bool {
        guard let services = server?.services, let admission = WatchAdmission(head, page, services.viewers) else {
            return false
        }
        connection.upgrade(
            adding: ["Sec-WebSocket-Protocol": PageAccess.subprotocol], messageSize: WatchHandler.maximumMessageSize,
            fragments: 256)
        connection.serve(by: WatchHandler(connection, admission, services.media))
        return true
    }

    private func wait(for query: SessionQuery) {
        guard let server, server.services.board.observerCount < SessionWait.maximumCount else {
            return respond(HTTPAnswer(error: "too many requests wait", status: 503))
        }
        connection.cancelDeadline()
        let json = server.sessionsJSON
        let wait = SessionWait(query, server.services.board) { [self] isMet, record in
            let session = record.map(json.value) ?? .null
            respond(
                isMet
                    ? HTTPAnswer(json: .fields(["session": session]))
                    : HTTPAnswer(
                        json: .fields(["error": .string("no session met the conditions in time"), "session": session]),
                        status: 408))
        }
        connection.whenEnded { wait.cancel() }
        wait.start(on: connection.thread)
    }

    private func respond(_ answer: HTTPAnswer) {
        var answer = answer
        answer.headers["Cache-Control"] = "no-store"
        connection.answer(answer)
    }
}
