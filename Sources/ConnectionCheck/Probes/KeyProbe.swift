// The API key. A permanent key gets a client token, which opens no session; a client token can only be proved by the
// control channel.
import DecartProtocol
import DecartSession
import Dispatch
import Signalling
import Synchronization

enum KeyProbe {
    typealias Completion = @Sendable (ProbeResult) -> Void

    static func run(_ configuration: CheckConfiguration, completion: @escaping Completion) {
        let host = configuration.base.host
        guard let key = configuration.key else {
            return completion(
                .notTried(
                    .key, host,
                    "Not tried: there is no key. Set the environment variable DECART_API_KEY, or "
                        + "--api-key-file."))
        }
        if key.isClientToken {
            openChannel(key, configuration, completion)
        } else {
            requestToken(key, configuration, completion)
        }
    }

    private static func requestToken(
        _ key: APIKey, _ configuration: CheckConfiguration, _ completion: @escaping Completion
    ) {
        let (watch, base) = (Stopwatch(), configuration.base)
        // Creating the TLS context reads files.
        DispatchQueue.global().async {
            ClientTokenRequest(
                url: base.clientTokens(key: key), key: key, trust: configuration.trust,
                route: configuration.route, userAgent: configuration.userAgent
            ).send(limit: configuration.limit) { error in
                if let error {
                    return completion(failure(error, watch.elapsed, base))
                }
                completion(
                    ProbeResult(
                        .key, base.host, .ok, watch.elapsed,
                        "The service accepted the permanent key: it issued a client token, which is discarded."))
            }
        }
    }

    private static func openChannel(
        _ key: APIKey, _ configuration: CheckConfiguration, _ completion: @escaping Completion
    ) {
        let exchange = ChannelExchange(configuration.base, completion)
        DispatchQueue.global().async { exchange.open(key, configuration) }
    }

    /// Classifies an error of the request or of the channel.
    static func failure(_ error: SessionError, _ duration: Duration, _ base: ServiceURL) -> ProbeResult {
        ProbeResult(.key, base.host, .failed(cause(of: error)), duration, error.message)
    }

    static func cause(of error: SessionError) -> Cause {
        switch (error.stage, error.httpStatus, error.code) {
        case (_, .some(429), _), (_, .some(503), _): .limit
        case (_, _, .invalidAPIKey): .key
        case (.resolve, _, _), (.connect, _, _), (.tls, _, _), (.configuration, _, _): ServiceProbes.cause(of: error)
        default: error.message.contains("session limit") ? .limit : .service
        }
    }
}

/// Opens the control channel, waits briefly for the service's first message, and closes.
private final class ChannelExchange: Sendable {
    /// A service that accepts a key sends `status` at once or waits for the client; one that rejects it sends an error
    /// at once.
    private static let messageTimeout = DispatchTimeInterval.milliseconds(800)

    private let watch = Stopwatch()
    private let base: ServiceURL
    private let completion: Mutex<KeyProbe.Completion?>
    private let channel = Holder<WebSocketChannel>()

    init(_ base: ServiceURL, _ completion: @escaping KeyProbe.Completion) {
        self.base = base
        self.completion = Mutex(completion)
    }

    func open(_ key: APIKey, _ configuration: CheckConfiguration) {
        var options = WebSocketChannel.Configuration()
        options.trust = configuration.trust
        options.route = configuration.route
        options.userAgent = configuration.userAgent
        options.resolveLimit = configuration.limit
        let url = base.stream(
            key: key, model: configuration.model, options: [("livekit_early_room_info", "true")])
        let channel = WebSocketChannel(url: url, configuration: options) { [self] event in received(event) }
        self.channel.store(channel)
        channel.open(timeout: configuration.limit)
    }

    private func received(_ event: SignallingEvent) {
        switch event {
        case .opened:
            DispatchQueue.probeTimers.asyncAfter(deadline: .now() + Self.messageTimeout) { [self] in succeed() }
        case .text(let bytes):
            guard let message = try? ServerMessage(decoding: bytes) else { return }
            if case .error(let text) = message { fail(Self.error(text)) } else { succeed() }
        case .binary, .answered: break
        case .closed(let code, let reason):
            let quoted = reason.isEmpty ? "" : ": \(reason.printable(limit: 200))"
            var error = SessionError(
                .server, "The service closed the channel at once (\(code.map(String.init) ?? "no code")\(quoted)).",
                stage: .channel)
            // Close 1013 is the service's way to report that all sessions of the account are in use.
            if code == 1013 { error.httpStatus = 503 }
            fail(error)
        case .silent(let error), .failed(let error): fail(error)
        }
    }

    private static func error(_ text: String) -> SessionError {
        var error = SessionError(
            PermanentErrorText.concernsKey(text) ? .invalidAPIKey : .server,
            "The service reported an error: \(text.printable(limit: 200))", stage: .channel)
        if text.lowercased().contains("session limit") { error.httpStatus = 503 }
        return error
    }

    private func succeed() {
        finish(
            ProbeResult(
                .key, base.host, .ok, watch.elapsed,
                "The service accepted the client token. This opened a session and closed it again: there is no other "
                    + "way to check a client token."))
    }

    private func fail(_ error: SessionError) { finish(KeyProbe.failure(error, watch.elapsed, base)) }

    private func finish(_ result: ProbeResult) {
        channel.take()?.close()
        let completion = completion.withLock { $0.take() }
        completion?(result)
    }
}
