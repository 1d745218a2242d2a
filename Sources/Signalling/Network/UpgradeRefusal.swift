package import DecartProtocol
package import DecartSession
package import NIOHTTP1

/// Converts a response that rejects the WebSocket upgrade into an error. Redirects are never followed: the key would go
/// to another server.
package struct UpgradeRefusal {
    let head: HTTPResponseHead
    let body: [UInt8]
    let url: ServiceURL

    package init(head: HTTPResponseHead, body: [UInt8], url: ServiceURL) {
        (self.head, self.body, self.url) = (head, body, url)
    }

    package var error: SessionError {
        let status = Int(head.status.code)
        let text = bodyText
        let details = text.map { ": \($0)" } ?? ""
        var error = SessionError(.webSocket, "", stage: .upgrade, httpStatus: status)
        switch status {
        case 401, 403:
            error.code = .invalidAPIKey
            error.isPermanent = true
            error.message =
                "\(url.host) rejected the API key (HTTP \(status)\(details)). "
                + "Check the key and whether it permits the model."
        case 404 where url.isForViewers:
            error.code = .server
            error.isPermanent = true
            error.message =
                "The session to watch does not exist on \(url.host) (HTTP 404\(details)): it has ended, or "
                + "subscribe-token belongs to another service. Get a new token."
        case 404:
            error.message = "\(url.host) has no service at this path (HTTP 404\(details)). Check base-url and model."
        case 300...399:
            error.code = .network
            error.message =
                "\(url.host) redirects to another address (HTTP \(status)); redirects are not followed. "
                + "Log in to this network if it has a login page, or correct base-url."
        case 200, 511:
            error.code = .network
            error.message =
                "\(url.host) answered with a page instead of a WebSocket (HTTP \(status)). "
                + "Log in to this network if it has a login page, or correct base-url."
        case 429:
            error.code = .concurrencyLimit
            error.message =
                "\(url.host) admits no further session now (HTTP 429\(details))"
                + SessionError.concurrencyRemedy(after: ")")
        case 500...599:
            error.code = .server
            error.message = "\(url.host) is unavailable (HTTP \(status)\(details))."
        default:
            error.message = "\(url.host) rejected the WebSocket upgrade (HTTP \(status)\(details))."
        }
        if status == 429 || status == 503 { error.retryAfter = retryAfter }
        if let text, PermanentErrorText.matches(text) { error.isPermanent = true }
        return error
    }

    /// Only delta-seconds (RFC 9110 §10.2.3): a date would require synchronised wall clocks.
    private var retryAfter: Duration? {
        guard let text = head.headers.first(name: "Retry-After"), let seconds = UInt16(text) else { return nil }
        return .seconds(Int(seconds))
    }

    /// The beginning of a textual body, redacted.
    private var bodyText: String? {
        let type = head.headers.first(name: "Content-Type")?.lowercased() ?? ""
        guard type.hasPrefix("application/json") || type.hasPrefix("text/plain"), !body.isEmpty else { return nil }
        var text = String(decoding: body.prefix(4096), as: UTF8.self)
        // Bodies often end with a line feed, which would leave a stray space in the sentence.
        while text.last?.isWhitespace ?? false { text.removeLast() }
        return text.isEmpty ? nil : url.redacting(text).printable(limit: 200)
    }
}
