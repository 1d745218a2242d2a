// Decides which requests the control port accepts: of browsers those of its own page, and of no other. Another page can
// neither read the token (same-origin policy) nor send it, and cannot fake `Host`, `Origin` or `Sec-Fetch-Site`. From
// other machines every request needs the token.
import DecartProtocol
import MediaSecurity
import Network

struct PageAccess: Sendable {
    static let header = "X-Standin-Token"
    /// The WebSocket subprotocol that the page asks for; the token comes as another one, because a WebSocket of a browser
    /// has no other header of one's own.
    static let subprotocol = "standin"
    private static let tokenPrefix = "token."

    /// Random in each run.
    let token: String
    /// Name or address under which browsers of other machines reach this one; nil: they do not.
    let host: String?

    init(host: String? = nil) {
        self.host = host
        token = Base64.encode((0..<24).map { _ in UInt8.random(in: .min ... .max) }, alphabet: .url)
    }

    /// Every browser sends one of these (CORS, fetch metadata) with a request that can change state.
    static func isBrowser(_ fields: HTTPFields) -> Bool {
        fields.contains("Origin") || fields.contains("Sec-Fetch-Site")
    }

    private static let otherOrigin = HTTPAnswer(error: "not for pages of other origins", status: 403)
    private static let noToken = HTTPAnswer(error: "the token of the page is missing or wrong", status: 403)

    /// Returns nil if the request is the page's own. `Host` is checked already.
    /// - Parameter isForeign: The request is one from another machine.
    func refusal(of head: HTTPRequestHead, isForeign: Bool) -> HTTPAnswer? {
        let sites = head.fields["Sec-Fetch-Site"]
        guard isSameOrigin(head.fields), sites.allSatisfy({ $0 == "same-origin" || $0 == "none" }) else {
            return Self.otherOrigin
        }
        guard head.method == "GET", PageFiles.paths.contains(String(head.path)) else {
            return hasToken(head.fields[Self.header]) ? nil : Self.noToken
        }
        // The user opens the page itself; on this machine it has no token yet, and changes nothing. A browser can send no
        // header of one's own with the request for a page, its style and its script.
        let token = PercentEncoding.firstQueryItems(ofTarget: head.target)["token"]
        return !isForeign || hasToken(token.map { [$0] } ?? [])
            ? nil : HTTPAnswer(403, "open the address that decart-standin printed, with its token")
    }

    /// True if the request names the host of `--web-host`: it then needs the token, also from this machine.
    func isForeign(_ fields: HTTPFields) -> Bool {
        guard let host, fields["Host"].count == 1, let named = fields.first("Host"),
            let url = try? ServiceURL(base: "http://" + named, allowInsecure: true)
        else { return false }
        return BrowserGuard.plain(url.host) == BrowserGuard.plain(host)
    }

    /// Returns nil if the page may open this WebSocket. Browsers send `Origin` with each.
    func refusal(ofUpgrade head: HTTPRequestHead) -> HTTPAnswer? {
        guard BrowserGuard.namesThisMachine(head.fields) || isForeign(head.fields), head.fields.contains("Origin"),
            isSameOrigin(head.fields)
        else { return Self.otherOrigin }
        let protocols = head.fields.list("Sec-WebSocket-Protocol")
        let tokens = protocols.filter { $0.hasPrefix(Self.tokenPrefix) }
            .map { String($0.dropFirst(Self.tokenPrefix.count)) }
        guard protocols.contains(Self.subprotocol), hasToken(tokens) else { return Self.noToken }
        return nil
    }

    private func isSameOrigin(_ fields: HTTPFields) -> Bool {
        guard let host = fields.first("Host")?.lowercased() else { return false }
        return fields["Origin"].count <= 1 && fields["Origin"].allSatisfy { $0.lowercased() == "http://" + host }
    }

    private func hasToken(_ tokens: [String]) -> Bool {
        tokens.count == 1
            && tokens.allSatisfy { MessageAuthentication.areEqual(Array($0.utf8), Array(token.utf8)) }
    }
}
