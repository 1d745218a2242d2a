// Requests a client token of the service with a permanent key: the one request that proves such a key without a
// session. The token is discarded here.
package import DecartProtocol
package import DecartSession
import NIOHTTP1

package struct ClientTokenRequest: Sendable {
    private let url: ServiceURL
    private let key: APIKey
    private let trust: TLSTrust
    private let route: NetworkRoute
    private let userAgent: String

    /// - Parameter url: from `ServiceURL.clientTokens`.
    package init(url: ServiceURL, key: APIKey, trust: TLSTrust, route: NetworkRoute = NetworkRoute(), userAgent: String)
    {
        self.url = url
        self.key = key
        self.trust = trust
        self.route = route
        self.userAgent = userAgent
    }

    /// Sends the request. Blocks briefly to read the trusted root certificates.
    /// - Parameter completion: gets the error of a failed request, or nil if the service issued a token. Called once,
    ///   on the network thread; must not block.
    package func send(limit: Duration, completion: @escaping @Sendable (SessionError?) -> Void) {
        // The shortest life of a token that the service offers.
        let body = #"{"expiresIn":1}"#
        let fields = HTTPHeaders([
            ("Host", url.hostHeader), ("Connection", "close"), ("User-Agent", userAgent),
            ("Accept", "application/json"), ("Content-Type", "application/json"),
            ("Content-Length", String(body.utf8.count)), ("X-API-KEY", key.reveal()),
        ])
        let request = HTTPRequest(
            host: url.host, port: url.port, isSecure: url.isSecure,
            head: HTTPRequestHead(version: .http1_1, method: .POST, uri: url.requestTarget, headers: fields),
            body: body, maximumSize: ClientToken.maximumSize, trust: trust, route: route, limit: limit,
            resolveLimit: limit)
        HTTPExchange(request) { [url] outcome in completion(Self.error(of: outcome, url)) }.start()
    }

    private static func error(of outcome: HTTPExchange.Outcome, _ url: ServiceURL) -> SessionError? {
        func wrong(_ message: String, _ status: Int? = nil) -> SessionError {
            SessionError(.server, message, stage: .upgrade, httpStatus: status)
        }
        switch outcome {
        case .answer(let head, let body) where (200...299).contains(head.status.code):
            guard (try? ClientToken(decoding: body)) == nil else { return nil }
            let type = head.headers.first(name: "Content-Type")?.lowercased() ?? ""
            if type.hasPrefix("text/html") { return UpgradeRefusal(head: head, body: [], url: url).error }
            return wrong(
                "\(url.host) answered the request for a client token with something else. Check base-url.",
                Int(head.status.code))
        case .answer(let head, let body): return UpgradeRefusal(head: head, body: body, url: url).error
        case .tooLong: return wrong("The answer of \(url.host) is larger than that of the service. Check base-url.")
        case .timedOut:
            return SessionError(
                .connectionTimeout,
                "\(url.host):\(url.port) did not answer the request for a client token in time. Check the service.",
                stage: .upgrade)
        case .failed(let error): return error
        }
    }
}
