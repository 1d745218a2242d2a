// A fresh key from the user's own backend: one POST, one bounded answer, no redirect. Neither the URL's query nor a
// header nor the key nor a word of the answer gets into an error.
package import DecartProtocol
package import DecartSession
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS

package struct APIKeyFetcher: Sendable {
    package enum Body: Sendable {
        case empty
        /// `{}`, as JSON.
        case emptyObject
    }

    package struct Configuration: Sendable {
        package var trust: TLSTrust = .system
        package var userAgent = "gst-decart"
        package var body = Body.emptyObject
        package var limit: Duration = .seconds(10)
        package var resolveLimit: Duration = .seconds(5)

        package init() {}
    }

    private let url: BackendURL
    private let headers: RequestHeaders
    private let configuration: Configuration

    package init(url: BackendURL, headers: RequestHeaders = .none, configuration: Configuration = Configuration()) {
        self.url = url
        self.headers = headers
        self.configuration = configuration
    }

    /// Begins at once. Blocks for the moment that reading the certificates of trusted authorities takes.
    /// - Parameters:
    ///   - timeout: in place of the configured limit, where it is shorter.
    ///   - completion: called once on the network thread, not after `cancel()` returned on that thread; must not block.
    package func fetch(
        timeout: Duration? = nil, completion: @escaping @Sendable (Result<ClientToken, SessionError>) -> Void
    ) -> APIKeyFetch {
        let limit = timeout.map { min($0, configuration.limit) } ?? configuration.limit
        let fetch = APIKeyFetch(
            url: url, headers: headers, configuration: configuration, loop: EventLoops.group.next(),
            completion: completion)
        do {
            let tls = url.isSecure ? try configuration.trust.makeContext() : nil
            fetch.start(tls, limit: TimeAmount(limit))
        } catch {
            fetch.fail(error)
        }
        return fetch
    }
}

/// A fetch under way.
// @unchecked: touched on `loop` only, after init.
package final class APIKeyFetch: @unchecked Sendable {
    private let loop: any EventLoop
    private let url: BackendURL
    private let headers: RequestHeaders
    private let configuration: APIKeyFetcher.Configuration
    private var completion: (@Sendable (Result<ClientToken, SessionError>) -> Void)?
    private var channel: (any Channel)?
    private var timer: Scheduled<Void>?

    init(
        url: BackendURL, headers: RequestHeaders, configuration: APIKeyFetcher.Configuration, loop: any EventLoop,
        completion: @escaping @Sendable (Result<ClientToken, SessionError>) -> Void
    ) {
        self.url = url
        self.headers = headers
        self.configuration = configuration
        self.loop = loop
        self.completion = completion
    }

    /// From any thread, more than once. Nothing is told any more.
    package func cancel() {
        loop.execute {
            self.completion = nil
            self.end()
        }
    }

    func fail(_ error: SessionError) {
        loop.execute { self.finish(.failure(error)) }
    }

    func start(_ tls: NIOSSLContext?, limit: TimeAmount) {
        loop.execute { self.connect(tls, limit) }
    }

    private func connect(_ tls: NIOSSLContext?, _ limit: TimeAmount) {
        guard completion != nil else { return }
        timer = loop.scheduleTask(in: limit) { self.timedOut() }
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(limit)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .resolver(NameResolver(loop: loop, limit: min(limit, TimeAmount(configuration.resolveLimit))))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try self.prepare(channel, tls) }
            }
        let connected =
            if url.hostIsAddress, let address = try? SocketAddress(ipAddress: url.host, port: url.port) {
                bootstrap.connect(to: address)
            } else {
                bootstrap.connect(host: url.host, port: url.port)
            }
        connected.whenComplete { result in
            switch result {
            case .success(let channel):
                // Cancelled or timed out meanwhile.
                if self.completion == nil { channel.close(promise: nil) } else { self.channel = channel }
            case .failure(let error):
                self.failed(error, certificate: nil)
            }
        }
    }

    private func prepare(_ channel: any Channel, _ tls: NIOSSLContext?) throws {
        channel.keepFromChildren()
        let pipeline = channel.pipeline.syncOperations
        if let tls {
            // RFC 6066 §3: no server name for addresses, and none with a trailing dot.
            let name = url.host.hasSuffix(".") ? String(url.host.dropLast()) : url.host
            try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: url.hostIsAddress ? nil : name))
        }
        try pipeline.addHandler(InboundGate())
        try pipeline.addHandler(HTTPRequestEncoder())
        try pipeline.addHandler(
            ByteToMessageHandler(HTTPResponseDecoder(limitConfiguration: UpgradeHandler.decoderLimits)))
        let request = KeyRequestHandler(
            head: head, body: configuration.body == .emptyObject ? "{}" : "", waitsForTLS: tls != nil
        ) { [weak self] context, outcome in
            self?.answered(context, outcome)
        }
        try pipeline.addHandler(request)
    }

    private var head: HTTPRequestHead {
        var fields = HTTPHeaders([
            ("Host", url.hostHeader), ("Connection", "close"), ("User-Agent", configuration.userAgent),
            ("Accept", "application/json"),
        ])
        switch configuration.body {
        case .empty:
            fields.add(name: "Content-Length", value: "0")
        case .emptyObject:
            fields.add(name: "Content-Type", value: "application/json")
            fields.add(name: "Content-Length", value: "2")
        }
        for (name, value) in headers.reveal() { fields.replaceOrAdd(name: name, value: value) }
        return HTTPRequestHead(version: .http1_1, method: .POST, uri: url.requestTarget, headers: fields)
    }

    // MARK: Outcomes

    private func answered(_ context: ChannelHandlerContext, _ outcome: KeyRequestHandler.Outcome) {
        switch outcome {
        case .answer(let status, let body):
            finish(KeyAnswer(status: status, body: body, host: url.host).result)
        case .failed(let error):
            let tls = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
            failed(error, certificate: tls?.peerCertificate)
        }
    }

    private func failed(_ error: any Error, certificate: NIOSSLCertificate?) {
        // The limit speaks of the WebSocket, which is not meant here.
        if error is SessionError || error is KeyRequestHandler.TooLong {
            return finish(.failure(KeyAnswer.tooLong(host: url.host)))
        }
        var failure =
            TLSFailure.error(error, host: url.host, certificate: certificate)
            ?? ConnectFailure.error(error, host: url.host, port: url.port)
        failure.message = "No fresh API key: " + failure.message
        finish(.failure(failure))
    }

    private func timedOut() {
        finish(
            .failure(
                SessionError(
                    .connectionTimeout, "No fresh API key: \(url.host):\(url.port) did not answer in time.",
                    stage: .connect)))
    }

    private func finish(_ result: Result<ClientToken, SessionError>) {
        guard let completion else { return }
        self.completion = nil
        end()
        completion(result)
    }

    private func end() {
        timer?.cancel()
        timer = nil
        channel?.close(promise: nil)
        channel = nil
    }
}

/// A backend's answer, explained.
struct KeyAnswer {
    let status: Int
    let body: [UInt8]
    let host: String

    var result: Result<ClientToken, SessionError> {
        guard (200...299).contains(status) else { return .failure(refusal) }
        do {
            return .success(try ClientToken(decoding: body))
        } catch {
            return .failure(
                SessionError(
                    .server, "No fresh API key: the answer of \(host) is no JSON object with apiKey.", stage: .connect,
                    httpStatus: status))
        }
    }

    private var refusal: SessionError {
        var error = SessionError(.server, "", stage: .connect, httpStatus: status)
        let what = "No fresh API key: \(host)"
        switch status {
        case 401, 403:
            error.code = .invalidAPIKey
            error.isPermanent = true
            error.message = "\(what) refuses us (HTTP \(status)). Check api-key-url and api-key-headers."
        case 300...399:
            error.code = .network
            error.message = "\(what) redirects elsewhere (HTTP \(status)), which is not followed."
        case 404, 405:
            error.message = "\(what) has no such service (HTTP \(status)). Check api-key-url."
        case 511:
            error.code = .network
            error.message = "\(what) answers with a login page (HTTP 511)."
        default:
            error.message = "\(what) cannot serve now (HTTP \(status))."
        }
        return error
    }

    static func tooLong(host: String) -> SessionError {
        SessionError(.server, "No fresh API key: the answer of \(host) is too long.", stage: .connect)
    }
}
