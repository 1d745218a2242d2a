// Requests about the account of a permanent key, which open no session: a client token, which proves the key and is
// discarded by its user, and the quota of sessions.
package import DecartProtocol
package import DecartSession
import Network

package struct AccountRequests: Sendable {
    private let base: ServiceURL
    private let key: APIKey
    private let configuration: HTTPConfiguration

    package init(base: ServiceURL, key: APIKey, configuration: HTTPConfiguration) {
        (self.base, self.key, self.configuration) = (base, key, configuration)
    }

    /// Requests a token with the shortest life that the service offers. See `quota` for the rest.
    package func clientToken(
        limit: Duration, completion: @escaping @Sendable (Result<ClientToken, SessionError>) -> Void
    ) {
        send(
            "POST", base.clientTokens(key: key), #"{"expiresIn":1}"#, limit, ClientToken.maximumSize, "a client token",
            { try? ClientToken(decoding: $0) }, completion)
    }

    /// HTTP 404 means that the service has no such request.
    /// - Parameter completion: called once, on the network thread; must not block.
    package func quota(
        limit: Duration, completion: @escaping @Sendable (Result<RealtimeQuota, SessionError>) -> Void
    ) {
        send(
            "GET", base.realtimeQuota(key: key), "", limit, RealtimeQuota.maximumSize, "the quota",
            { try? RealtimeQuota(decoding: $0) }, completion)
    }

    private func send<Answer>(
        _ method: String, _ url: ServiceURL, _ body: String, _ limit: Duration, _ maximumSize: Int, _ what: String,
        _ decode: @escaping @Sendable ([UInt8]) -> Answer?,
        _ completion: @escaping @Sendable (Result<Answer, SessionError>) -> Void
    ) {
        var fields = HTTPFields([("Accept", "application/json"), ("X-API-KEY", key.reveal())])
        if !body.isEmpty {
            fields.add("Content-Type", "application/json")
            fields.add("Content-Length", String(body.utf8.count))
        }
        var configuration = configuration
        (configuration.limit, configuration.resolveLimit) = (limit, limit)
        let request = HTTPRequest(
            url: url.http, method: method, fields: fields, body: body, maximumSize: maximumSize,
            configuration: configuration)
        HTTPExchange(request) { outcome in
            if case .answer(let head, let body) = outcome, (200...299).contains(head.status),
                let answer = decode(body)
            {
                completion(.success(answer))
            } else {
                completion(.failure(Self.error(of: outcome, what, url)))
            }
        }.start()
    }

    private static func error(of outcome: HTTPExchange.Outcome, _ what: String, _ url: ServiceURL) -> SessionError {
        switch outcome {
        case .answer(let head, _) where (200...299).contains(head.status):
            let type = head.fields.first("Content-Type")?.lowercased() ?? ""
            if type.hasPrefix("text/html") { return UpgradeRefusal(head: head, body: [], url: url).error }
            return SessionError(
                .server, "\(url.host) answered the request for \(what) with something else. Check base-url.",
                stage: .upgrade)
        case .answer(let head, let body): return UpgradeRefusal(head: head, body: body, url: url).error
        case .tooLong, .timedOut, .failed:
            return outcome.error(
                tooLong: "The answer of \(url.host) is larger than that of the service. Check base-url.",
                timedOut: "\(url.host):\(url.port) did not answer the request for \(what) in time. Check the service.",
                stage: .upgrade)
        }
    }
}
