package import DecartProtocol
package import DecartSession
package import Network

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
        let status = head.status
        let (text, type) = cause
        let details = text.map { ": \($0)" } ?? ""
        let refusal = "\(url.host) refused the session (HTTP \(status)\(details))."
        var error = SessionError(.webSocket, "", stage: .upgrade, httpStatus: status)
        switch status {
        case 401, 403:
            error.code = .invalidAPIKey
            error.isPermanent = true
            // A room gets a token of the service in place of the key.
            error.message =
                url.bearer == nil
                ? "\(url.host) rejected the API key (HTTP \(status)\(details)). "
                    + "Check the key and whether it permits the model."
                : "\(url.host) rejected the token of the room (HTTP \(status)\(details))."
        case 404 where url.isForViewers, 410 where url.isForViewers:
            error.code = .server
            error.isPermanent = true
            error.hasSessionEnded = true
            error.message =
                "The session to watch does not exist on \(url.host) (HTTP \(status)\(details)): it has ended, or "
                + "subscribe-token belongs to another service. Get a new token."
        // 501 is that of a server of files.
        case 404, 405, 501:
            error.message =
                "\(url.host) has no service at this path (HTTP \(status)\(details)). Check base-url and model."
        case 400, 422:
            error.code = .invalidOptions
            error.isPermanent = true
            error.message =
                "\(url.host) refused the request (HTTP \(status)\(details)). "
                + "Check model, resolution, speed and query-items."
        case 402, 410:
            error = SessionError(
                reported: status == 402 ? .insufficientCredits : .removedModel, refusal, stage: .upgrade)
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
                "\(url.host) admits no further session now (HTTP 429\(details)). \(SessionError.accountIsFull)"
        case 500...599:
            error.code = .server
            error.message = "\(url.host) is unavailable (HTTP \(status)\(details))."
        default:
            error.message = "\(url.host) rejected the WebSocket upgrade (HTTP \(status)\(details))."
        }
        if let type { error = SessionError(reported: type, refusal, stage: .upgrade) }
        error.stage = .upgrade
        error.httpStatus = status
        error.refusal = text
        if status == 429 || status == 503 { error.retryAfter = retryAfter }
        if let text, type == nil, PermanentErrorText.matches(text) { error.isPermanent = true }
        return error
    }

    /// Only delta-seconds (RFC 9110 §10.2.3): a date would require synchronised wall clocks.
    private var retryAfter: Duration? {
        guard let text = head.fields.first("Retry-After"), let seconds = UInt16(text) else { return nil }
        return .seconds(Int(seconds))
    }

    /// The text of the body, redacted, and the cause that the body names. Its text alone names the cause of a 4xx only.
    private var cause: (text: String?, type: ServiceErrorType?) {
        guard let answer = head.refusal(in: body) else { return (nil, nil) }
        let isRefusal = (400..<500).contains(head.status) && head.status != 401
        return (
            url.redacting(answer.text).printable(limit: 200),
            ServiceErrorType(answer.type, text: isRefusal ? answer.text : "")
        )
    }
}
