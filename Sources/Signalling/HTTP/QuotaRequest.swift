// Reads how many sessions the account may run at once, and how many it runs: GET /v1/realtime/quota.
package import DecartProtocol
package import DecartSession
import NIOHTTP1

package struct QuotaRequest: Sendable {
    package typealias Answer = Result<RealtimeQuota, SessionError>

    private let url: ServiceURL
    private let key: APIKey
    private let trust: TLSTrust
    private let route: NetworkRoute
    private let userAgent: String

    /// - Parameter url: from `ServiceURL.realtimeQuota`.
    package init(url: ServiceURL, key: APIKey, trust: TLSTrust, route: NetworkRoute = NetworkRoute(), userAgent: String)
    {
        self.url = url
        self.key = key
        self.trust = trust
        self.route = route
        self.userAgent = userAgent
    }

    /// Sends the request. Blocks briefly to read the trusted root certificates.
    /// - Parameter completion: called once, on the network thread; must not block. HTTP 404 means that the service has
    ///   no such request.
    package func send(limit: Duration, completion: @escaping @Sendable (Answer) -> Void) {
        let fields = HTTPHeaders([
            ("Host", url.hostHeader), ("Connection", "close"), ("User-Agent", userAgent),
            ("Accept", "application/json"), ("X-API-KEY", key.reveal()),
        ])
        let request = HTTPRequest(
            host: url.host, port: url.port, isSecure: url.isSecure,
            head: HTTPRequestHead(version: .http1_1, method: .GET, uri: url.requestTarget, headers: fields),
            maximumSize: RealtimeQuota.maximumSize, trust: trust, route: route, limit: limit, resolveLimit: limit)
        HTTPExchange(request) { [url] outcome in completion(Self.result(of: outcome, url)) }.start()
    }

    private static func result(of outcome: HTTPExchange.Outcome, _ url: ServiceURL) -> Answer {
        switch outcome {
        case .answer(let head, let body) where (200...299).contains(head.status.code):
            guard let quota = try? RealtimeQuota(decoding: body) else { fallthrough }
            return .success(quota)
        case .tooLong:
            return .failure(SessionError(.server, "The answer of \(url.host) is no quota.", stage: .upgrade))
        case .answer(let head, let body): return .failure(UpgradeRefusal(head: head, body: body, url: url).error)
        case .timedOut:
            return .failure(
                SessionError(.connectionTimeout, "\(url.host):\(url.port) did not answer in time.", stage: .upgrade))
        case .failed(let error): return .failure(error)
        }
    }
}
