// Fetches an API key from the user's backend: one POST, one bounded response, no redirect. No error contains the URL's
// query, a header, the key or any text of the response.
package import DecartProtocol
package import DecartSession
package import Network

package struct APIKeyFetcher: Sendable {
    private let url: HTTPURL
    private let headers: RequestHeaders
    private let configuration: HTTPConfiguration

    package init(url: HTTPURL, headers: RequestHeaders = .none, configuration: HTTPConfiguration = HTTPConfiguration())
    {
        self.url = url
        self.headers = headers
        self.configuration = configuration
    }

    /// Starts a fetch.
    /// - Parameters:
    ///   - timeout: replaces the configured limit if it is shorter.
    ///   - completion: called at most once, on the network thread, and not after a cancellation has run there; must not
    ///     block.
    package func fetch(
        timeout: Duration? = nil, completion: @escaping @Sendable (Result<ClientToken, SessionError>) -> Void
    ) -> HTTPExchange {
        let (host, port) = (url.host, url.port)
        var configuration = configuration
        if let timeout { configuration.limit = min(timeout, configuration.limit) }
        let request = HTTPRequest(
            url: url, fields: fields, body: "{}", maximumSize: ClientToken.maximumSize, configuration: configuration)
        let exchange = HTTPExchange(request) { outcome in
            completion(KeyAnswer.result(of: outcome, host: host, port: port))
        }
        exchange.start()
        return exchange
    }

    private var fields: HTTPFields {
        var fields: HTTPFields = [
            "Accept": "application/json", "Content-Type": "application/json", "Content-Length": "2",
        ]
        if let credentials = url.credentials { fields.add("Authorization", credentials.authorization.reveal()) }
        for (name, value) in headers.reveal() { fields.set(name, value) }
        return fields
    }
}

/// Interprets the backend's response.
package struct KeyAnswer {
    let head: HTTPResponseHead
    let body: [UInt8]
    let host: String
    private var status: Int { head.status }

    package init(head: HTTPResponseHead, body: [UInt8], host: String) {
        (self.head, self.body, self.host) = (head, body, host)
    }

    static func result(of outcome: HTTPExchange.Outcome, host: String, port: Int) -> Result<ClientToken, SessionError> {
        if case .answer(let head, let body) = outcome {
            return KeyAnswer(head: head, body: body, host: host).result
        }
        var error = outcome.error(
            tooLong: "the response of \(host) exceeds the size limit.",
            timedOut: "\(host):\(port) did not answer in time.")
        error.message = "No API key from api-key-url: " + error.message
        return .failure(error)
    }

    package var result: Result<ClientToken, SessionError> {
        guard (200...299).contains(status) else { return .failure(refusal) }
        do {
            return .success(try ClientToken(decoding: body))
        } catch {
            return .failure(
                SessionError(
                    .server,
                    "No API key from api-key-url: the response of \(host) is not a JSON object with a valid apiKey.",
                    stage: .connect, httpStatus: status))
        }
    }

    private var refusal: SessionError {
        var error = SessionError(.server, "", stage: .connect, httpStatus: status)
        let what = "No API key from api-key-url: \(host)"
        switch status {
        case 401, 403:
            error.code = .invalidAPIKey
            error.isPermanent = true
            error.message =
                "\(what) rejected the request (HTTP \(status)). "
                + head.remedy(basic: "the user name and password in api-key-url", bearer: "api-key-headers")
        case 300...399:
            error.code = .network
            error.message = "\(what) redirects (HTTP \(status)); redirects are not followed. Correct api-key-url."
        case 404, 405:
            error.message = "\(what) has no service for POST at this path (HTTP \(status)). Correct api-key-url."
        case 511:
            error.code = .network
            error.message = "\(what) answered with a login page (HTTP 511). Log in to this network."
        default:
            error.message = "\(what) reported an error (HTTP \(status)). Check that backend."
        }
        return error
    }
}
