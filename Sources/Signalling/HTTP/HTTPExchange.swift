// One request with one bounded response and without redirects, for an API key, a viewer's room or a WHEP server. This
// file knows none of them: the caller interprets the response.
import DecartProtocol
import DecartSession
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

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
    var method = HTTPMethod.POST
    /// Fields beside `Host`, `Connection` and `User-Agent`; those of the body are among them.
    var fields: HTTPHeaders
    var body = ""
    /// Limit for the response body, in bytes.
    var maximumSize: Int
    var configuration: HTTPConfiguration
    var refusesLocal = false

    fileprivate var head: HTTPRequestHead {
        var headers: HTTPHeaders = [
            "Host": url.hostHeader, "Connection": "close", "User-Agent": configuration.userAgent,
        ]
        for (name, value) in fields { headers.replaceOrAdd(name: name, value: value) }
        return HTTPRequestHead(version: .http1_1, method: method, uri: url.requestTarget, headers: headers)
    }
}

/// An exchange in progress.
// @unchecked: after init, used only on `loop`.
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

    private let loop: any EventLoop
    private let request: HTTPRequest
    private var completion: (@Sendable (Outcome) -> Void)?
    private var channel: (any Channel)?
    private var timer: Scheduled<Void>?

    /// - Parameter completion: called at most once, on the network thread, and not after a cancellation has run there;
    ///   must not block.
    init(_ request: HTTPRequest, completion: @escaping @Sendable (Outcome) -> Void) {
        loop = EventLoops.group.next()
        self.request = request
        self.completion = completion
    }

    /// Connects and sends the request. Call it once. Blocks briefly to read the trusted root certificates.
    func start() {
        do {
            let tls = request.url.isSecure ? try request.configuration.trust.makeContext() : nil
            loop.execute { self.connect(tls, TimeAmount(self.request.configuration.limit)) }
        } catch {
            loop.execute { self.finish(.failed(error)) }
        }
    }

    /// Cancels the exchange, asynchronously on the network thread. Can be called from any thread and repeatedly.
    package func cancel() {
        loop.execute {
            self.completion = nil
            self.end()
        }
    }

    private func connect(_ tls: NIOSSLContext?, _ limit: TimeAmount) {
        guard completion != nil else { return }
        timer = loop.scheduleTask(in: limit) { self.finish(.timedOut) }
        let connector = ServerConnector(
            host: request.url.host, port: request.url.port, route: request.configuration.route, limit: limit,
            resolveLimit: min(limit, TimeAmount(request.configuration.resolveLimit)), refusesLocal: request.refusesLocal
        )
        connector.connect(on: loop, tls: tls) { try self.prepare($0) }.whenComplete { result in
            switch result {
            case .success(let channel):
                // The exchange may have been cancelled or have timed out meanwhile.
                if self.completion == nil { channel.close(promise: nil) } else { self.channel = channel }
            case .failure(let error):
                self.failed(error, certificate: nil)
            }
        }
    }

    private func prepare(_ channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(InboundGate())
        try pipeline.addHandler(HTTPRequestEncoder())
        try pipeline.addHandler(
            ByteToMessageHandler(HTTPResponseDecoder(limitConfiguration: UpgradeHandler.decoderLimits)))
        let handler = RequestHandler(
            head: request.head, body: request.body, maximumSize: request.maximumSize
        ) { [weak self] context, outcome in
            self?.answered(context, outcome)
        }
        try pipeline.addHandler(handler)
    }

    // MARK: Outcomes

    private func answered(_ context: ChannelHandlerContext, _ outcome: RequestHandler.Outcome) {
        switch outcome {
        case .success(let (head, body)): finish(.answer(head, body: body))
        case .failure(let error): failed(error, certificate: context.tls?.peerCertificate)
        }
    }

    private func failed(_ error: any Error, certificate: NIOSSLCertificate?) {
        // `InboundGate` fails with a SessionError about the WebSocket upgrade, which would be misleading here.
        if error is SessionError || error is RequestHandler.TooLong { return finish(.tooLong) }
        let url = request.url
        finish(.failed(ConnectFailure.error(error, host: url.host, port: url.port, certificate: certificate)))
    }

    private func finish(_ outcome: Outcome) {
        guard let completion else { return }
        self.completion = nil
        end()
        completion(outcome)
    }

    private func end() {
        timer?.cancel()
        timer = nil
        channel?.close(promise: nil)
        channel = nil
    }
}
