// The API key. A permanent key gets a client token and the account's quota, which opens no session; a client token can
// only be proved by the control channel.
import DecartProtocol
import DecartSession
import Dispatch
import GStreamerKit
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
        if let age = key.secondsSinceExpiry(now: UnixClock.seconds) {
            let error = SessionError.expiredToken(age, "Get another one.", isPermanent: true)
            completion(failure(error, .zero, configuration.base))
        } else if key.isClientToken {
            openChannel(key, configuration, completion)
        } else {
            requestToken(key, configuration, completion)
        }
    }

    private static func requestToken(
        _ key: APIKey, _ configuration: CheckConfiguration, _ completion: @escaping Completion
    ) {
        let (watch, base) = (Stopwatch(), configuration.base)
        let requests = AccountRequests(
            base: base, key: key,
            configuration: HTTPConfiguration(
                trust: configuration.trust, route: configuration.route, userAgent: configuration.userAgent))
        // Creating the TLS context reads files.
        DispatchQueue.global().async {
            requests.clientToken(limit: configuration.limit) { token in
                if case .failure(let error) = token {
                    return completion(failure(error, watch.elapsed, base))
                }
                // Both requests share the limit of the probe.
                let left = max(configuration.limit - watch.elapsed, .milliseconds(1))
                DispatchQueue.global().async {
                    requests.quota(limit: left) { completion(accepted(base, watch.elapsed, $0)) }
                }
            }
        }
    }

    /// A quota that cannot be read is no failure: the token has shown what a session needs.
    private static func accepted(
        _ base: ServiceURL, _ duration: Duration, _ answer: Result<RealtimeQuota, SessionError>
    ) -> ProbeResult {
        let text = "The service accepted the permanent key: it issued a client token, which is discarded."
        var result = ProbeResult(.key, base.host, .ok, duration, text)
        switch answer {
        case .success(let quota):
            result.quota = quota
            result.message += " " + quota.sentence
            if quota.isUsedUp { result.outcome = .failed(.limit) }
        case .failure(let error) where error.httpStatus == 404: result.message += " It has no quota endpoint."
        case .failure(let error): result.message += " The quota could not be read: " + error.message
        }
        return result
    }

    private static func openChannel(
        _ key: APIKey, _ configuration: CheckConfiguration, _ completion: @escaping Completion
    ) {
        let exchange = ChannelExchange(configuration.base, key, completion)
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
        case (_, _, .concurrencyLimit), (_, _, .insufficientCredits): .limit
        case (.resolve, _, _), (.connect, _, _), (.tls, _, _), (.configuration, _, _): ServiceProbes.cause(of: error)
        default: .service
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
    private let redact: TextRedactor

    init(_ base: ServiceURL, _ key: APIKey, _ completion: @escaping KeyProbe.Completion) {
        self.base = base
        redact = TextRedactor([key.reveal()])
        self.completion = Mutex(completion)
    }

    func open(_ key: APIKey, _ configuration: CheckConfiguration) {
        var options = configuration.channel(trust: configuration.trust)
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
            guard case .error(let answer, let word, _) = message else { return succeed() }
            let text = redact(answer)
            fail(.service(text, type: ServiceErrorType(word, text: text), stage: .channel))
        case .binary, .answered: break
        case .closed(let code, let reason): fail(.closed(code, redact(reason), isConnected: false))
        case .silent(let error), .failed(let error): fail(error)
        }
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
        // Before the channel closes, whose end would be a second result.
        let completion = completion.withLock { $0.take() }
        channel.take()?.close()
        completion?(result)
    }
}

extension RealtimeQuota {
    fileprivate var sentence: String {
        guard let limit else { return "Its sessions have no limit." }
        let used =
            active.map { "\($0) of the account's \(limit) sessions are in use" }
            ?? "The account may run \(limit) sessions at once"
        guard isUsedUp else { return used + (remaining.map { ", \($0) more can begin." } ?? ".") }
        return used + ": end another one, or raise the account's limit."
    }
}
