import DecartProtocol
import DecartSession
import NIOHTTP1

/// An answer other than the one that was asked for, explained. Redirects are never followed: the key would go to somebody
/// else.
struct UpgradeRefusal {
    let head: HTTPResponseHead
    let body: [UInt8]
    let url: ServiceURL

    var error: SessionError {
        let status = Int(head.status.code)
        let words = self.words
        let details = words.map { ": \($0)" } ?? ""
        var error = SessionError(.webSocket, "", stage: .upgrade, httpStatus: status)
        switch status {
        case 401, 403:
            error.code = .invalidAPIKey
            error.isPermanent = true
            error.message = "\(url.host) refuses the API key (HTTP \(status)\(details)). Check the key and its model."
        case 404 where url.isForViewers:
            error.code = .server
            error.isPermanent = true
            error.message =
                "\(url.host) has no such session (HTTP 404\(details)): it has ended, or its subscribe token is not for "
                + "this service."
        case 404:
            error.message = "\(url.host) has no such service (HTTP 404\(details)). Check base-url and model."
        case 300...399:
            error.code = .network
            error.message =
                "\(url.host) redirects elsewhere (HTTP \(status)), which is not followed. "
                + "Is there a login page in this network, or an old base-url?"
        case 200, 511:
            error.code = .network
            error.message =
                "\(url.host) answers with a page instead of a WebSocket (HTTP \(status)). "
                + "Is there a login page in this network?"
        case 429:
            error.code = .server
            error.message = "\(url.host) is being asked too often (HTTP 429\(details))."
        case 500...599:
            error.code = .server
            error.message = "\(url.host) cannot serve now (HTTP \(status)\(details))."
        default:
            error.message = "\(url.host) refuses the WebSocket (HTTP \(status)\(details))."
        }
        if status == 429 || status == 503 { error.retryAfter = retryAfter }
        if let words, PermanentErrorText.matches(words) { error.isPermanent = true }
        return error
    }

    /// Delta-seconds only (RFC 9110 §10.2.3): a date would need the two wall clocks to agree.
    private var retryAfter: Duration? {
        guard let text = head.headers.first(name: "Retry-After"), let seconds = UInt16(text) else { return nil }
        return .seconds(Int(seconds))
    }

    /// The start of a short textual body.
    private var words: String? {
        let type = head.headers.first(name: "Content-Type")?.lowercased() ?? ""
        guard type.hasPrefix("application/json") || type.hasPrefix("text/plain"), !body.isEmpty else { return nil }
        var words = String(decoding: body.prefix(4096), as: UTF8.self)
        // Bodies end with a line feed; in a sentence it would be a stray space.
        while words.last?.isWhitespace ?? false { words.removeLast() }
        return words.isEmpty ? nil : url.redacting(words).printable(limit: 200)
    }
}
