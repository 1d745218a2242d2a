// Controls a running stand-in over HTTP, for tests in other processes and languages. It listens on a port of its own, so
// that it still answers while the service itself refuses connections or breaks TLS, and on loopback only, unless its page
// is for other machines, which need the page's token. It rejects other pages' browsers, so that none can control it.
import DecartProtocol
import Dispatch
import EventLoopThreads
import Network

final class ControlEndpoint: Sendable {
    /// Bounds what a local program can take: each request gets a queue of its own, and bodies are kept in memory.
    private static let maximumConnectionCount = SessionWait.maximumCount + 64

    private let listeners: [Listener]
    private let connections: OpenConnections

    let port: Int

    init(port: Int, on thread: NetworkThread, of server: StandInServer) throws(NetworkError) {
        let connections = OpenConnections(limit: Self.maximumConnectionCount)
        self.connections = connections
        let accept: @Sendable (ByteStream) -> Void = { [weak server] stream in
            guard !connections.isFull else { return stream.close() }
            let isFromHere = stream.remoteAddress.map { HTTPURL.isLoopback(host: $0.ip) } ?? false
            connections.add(
                ClientConnection(stream) { connection, head, body in
                    ControlExchange(server, connection, isFromHere: isFromHere).respond(to: head, body)
                })
        }
        var port = port
        var listeners: [Listener] = []
        for address in Self.addresses(of: server.configuration) {
            do throws(NetworkError) {
                listeners.append(try Listeners.listen(address, port, on: thread, accept: accept))
            } catch {
                for listener in listeners { listener.close() }
                throw error
            }
            port = listeners[0].port
        }
        self.listeners = listeners
        self.port = port
    }

    /// Loopback, and for browsers of other machines the address of the service, else that of the page's host.
    static func addresses(of configuration: StandInConfiguration) -> [String] {
        guard configuration.servesPage, let host = configuration.pageHost else { return ["127.0.0.1"] }
        let address = BrowserGuard.plain(configuration.host ?? host)
        if HTTPURL.isLoopback(host: address) { return ["127.0.0.1"] }
        // All addresses have loopback among them.
        return ["", "0.0.0.0", "::"].contains(address) ? [address] : ["127.0.0.1", address]
    }

    /// Frees the port and ends all connections. Blocks.
    func close() {
        for listener in listeners { listener.close() }
        connections.closeAll(within: .seconds(2))
    }
}

/// One request and its answer.
// @unchecked: used on its connection's thread only.
private final class ControlExchange: @unchecked Sendable {
    private static let maximumTargetSize = 32 << 10

    private weak var server: StandInServer?
    private let connection: ClientConnection
    /// The peer is a program of this machine.
    private let isFromHere: Bool

    init(_ server: StandInServer?, _ connection: ClientConnection, isFromHere: Bool) {
        (self.server, self.connection, self.isFromHere) = (server, connection, isFromHere)
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
        let isForeign = page?.isForeign(head.fields) ?? false
        if let refusal = refusal(of: head, page, isForeign: isForeign) { return respond(refusal) }
        let request = ControlRequest(
            method: head.method, target: head.target, body: String(decoding: body, as: UTF8.self),
            host: head.host ?? "", isForeign: isForeign)
        // Leave the thread: some requests block until sockets are closed or bound.
        let isStarted = SerialQueue(label: "standin-control").start { [self, weak server] in
            let reply = server.map(request.reply) ?? .answer(HTTPAnswer(503, "the stand-in stops"))
            connection.thread.async { [self] in
                guard !connection.isClosing else { return }
                switch reply {
                case .answer(let answer): respond(answer)
                case .wait(let query): wait(for: query)
                }
            }
        }
        if !isStarted { respond(HTTPAnswer(error: "the process has no thread left", status: 503)) }
    }

    /// Returns nil if the request is allowed.
    private func refusal(of head: HTTPRequestHead, _ page: PageAccess?, isForeign: Bool) -> HTTPAnswer? {
        if isForeign, let page { return page.refusal(of: head, isForeign: true) }
        // DNS rebinding: a page whose host name resolves to this machine reads the answers as same-origin, without
        // `Origin`.
        guard isFromHere, BrowserGuard.namesThisMachine(head.fields) else {
            return HTTPAnswer(403, "the Host of the request is no loopback name or address")
        }
        guard PageAccess.isBrowser(head.fields) || (page != nil && head.target.hasPrefix("/page/")) else { return nil }
        return page.map { $0.refusal(of: head, isForeign: false) } ?? HTTPAnswer(403, "not for browsers")
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
