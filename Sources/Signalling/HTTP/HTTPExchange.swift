// One request with one bounded response and without redirects, for an API key, a viewer's room or a WHEP server. This
// file knows none of them: the caller interprets the response.
import DecartProtocol
import DecartSession
import EventLoopThreads
import MediaSecurity
import Network

/// The way to a server of HTTP.
package struct HTTPConfiguration: Sendable {
    package var trust: TLSTrust
    package var route: NetworkRoute
    package var userAgent: String
    /// Time for one request.
    package var limit: Duration = .seconds(10)
    package var resolveLimit: Duration = .seconds(5)

    package init(trust: TLSTrust = .system, route: NetworkRoute = NetworkRoute(), userAgent: String = "gst-decart") {
        (self.trust, self.route, self.userAgent) = (trust, route, userAgent)
    }
}

struct HTTPRequest: Sendable {
    var url: HTTPURL
    var method = "POST"
    /// Fields beside `Host`, `Connection` and `User-Agent`; those of the body are among them.
    var fields: HTTPFields
    var body = ""
    /// Limit for the response body, in bytes.
    var maximumSize: Int
    var configuration: HTTPConfiguration
    var refusesLocal = false

    fileprivate var bytes: [UInt8] {
        var all: HTTPFields = ["Host": url.hostHeader, "Connection": "close", "User-Agent": configuration.userAgent]
        for field in fields.all { all.set(field.name, field.value) }
        return HTTPRequestHead(method: method, target: url.requestTarget, fields: all).bytes + Array(body.utf8)
    }
}

/// An exchange in progress.
// @unchecked: after init, used only on `thread`.
package final class HTTPExchange: @unchecked Sendable {
    enum Outcome: Sendable {
        case answer(HTTPResponseHead, body: [UInt8])
        case tooLong
        case timedOut
        /// The connection failed; the error describes that but not the purpose of the exchange.
        case failed(SessionError)

        /// The error of an exchange without a usable response.
        func error(tooLong: String, timedOut: String, stage: SessionError.Stage = .connect) -> SessionError {
            switch self {
            case .answer, .tooLong: SessionError(.server, tooLong, stage: stage)
            case .timedOut: SessionError(.connectionTimeout, timedOut, stage: stage)
            case .failed(let error): error
            }
        }
    }

    private let thread = NetworkThread.shared
    private let request: HTTPRequest
    private var completion: (@Sendable (Outcome) -> Void)?
    private var connector: Connector?
    private var stream: ByteStream?
    private var timer: NetworkTimer?
    private var reader = HTTPResponseReader()
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []

    /// - Parameter completion: called at most once, on the network thread, and not after a cancellation has run there;
    ///   must not block.
    init(_ request: HTTPRequest, completion: @escaping @Sendable (Outcome) -> Void) {
        (self.request, self.completion) = (request, completion)
        reader = HTTPResponseReader(answersHEAD: request.method == "HEAD")
    }

    /// Connects and sends the request. Call it once, on any thread.
    func start() {
        guard thread.start() else {
            return SerialQueue(label: "decart-channel").async { self.finish(.failed(ConnectFailure.noThread)) }
        }
        thread.async { self.prepare() }
    }

    /// Cancels the exchange, asynchronously on the network thread. Can be called from any thread and repeatedly.
    package func cancel() {
        thread.async {
            self.completion = nil
            self.end()
        }
    }

    private func prepare() {
        guard completion != nil else { return }
        timer = thread.later(after: request.configuration.limit) { self.finish(.timedOut) }
        let trust = request.url.isSecure ? request.configuration.trust : nil
        TLSTrust.prepare(trust, on: thread, orElse: { self.finish(.failed($0)) }) { self.connect($0) }
    }

    private func connect(_ tls: TLSClientContext?) {
        guard completion != nil else { return }
        let configuration = request.configuration
        let destination = configuration.route.destination(
            request.url.host, request.url.port, limit: configuration.limit, resolveLimit: configuration.resolveLimit,
            refusesLocal: request.refusesLocal)
        connector = Connector(to: destination, tls: tls, on: thread) { result in
            switch result {
            case .success(let stream): self.send(over: stream)
            case .failure(let error): self.failed(error)
            }
        }
    }

    private func send(over stream: ByteStream) {
        connector = nil
        self.stream = stream
        stream.onEvent = { self.received($0) }
        stream.write(request.bytes)
    }

    private func received(_ event: ByteStream.Event) {
        do throws(HTTPError) {
            switch event {
            case .received(let bytes):
                reader.append(bytes)
                while completion != nil, let part = try reader.next() { took(part) }
            case .ended(nil):
                while completion != nil, let part = try reader.end() { took(part) }
                failed(.ended)
            case .ended(let error?): failed(error)
            case .connected, .secured, .writable: break
            }
        } catch {
            failed(.http(error))
        }
    }

    private func took(_ part: HTTPEvent<HTTPResponseHead>) {
        switch part {
        case .head(let head): self.head = head
        case .body(let bytes):
            guard body.count + bytes.count > request.maximumSize else { return body += bytes }
            // The body of an error response is not needed.
            let refusal = head.flatMap { (200...299).contains($0.status) ? nil : $0 }
            finish(refusal.map { .answer($0, body: []) } ?? .tooLong)
        case .end: if let head { finish(.answer(head, body: body)) }
        }
    }

    // MARK: Outcomes

    private func failed(_ error: NetworkError) {
        let url = request.url
        let hasAnswer = stream == nil || head != nil || url.isSecure
        let cause = hasAnswer ? nil : ConnectFailure.noHTTP(error, host: url.host, port: url.port)
        finish(
            .failed(
                cause
                    ?? ConnectFailure.error(
                        error, host: url.host, port: url.port, proxy: request.configuration.route.proxy(to: url.host))))
    }

    private func finish(_ outcome: Outcome) {
        guard let completion else { return }
        self.completion = nil
        end()
        completion(outcome)
    }

    private func end() {
        timer?.cancel()
        connector?.cancel()
        stream?.close()
        (timer, connector, stream) = (nil, nil, nil)
    }
}
