// Keeps the web pages of others out: a page that the developer visits must neither open, watch nor steer sessions.
import DecartProtocol
import NIOHTTP1

struct BrowserGuard: Sendable {
    /// Pages of any origin may connect, and the service may be reached by any name.
    var allowsBrowsers = false
    /// The address that is listened on; nil: loopback.
    var address: String?

    /// Nil: the request may come in.
    func refusal(of headers: HTTPHeaders) -> HTTPAnswer? {
        guard !allowsBrowsers else { return nil }
        // DNS rebinding: a page's own name can be made to mean this machine, and is then what its browser sends as Host.
        // Where other machines are served, the names that they know this one by are not known here.
        if ServiceURL.isLoopback(host: address ?? "localhost"), !Self.namesThisMachine(headers) {
            return HTTPAnswer(403, "the Host of the request is no loopback name or address; see --allow-browser")
        }
        // Browsers name the page's origin with each WebSocket. Some other clients name the service itself.
        guard headers["Origin"].allSatisfy(isOwnOrigin) else {
            return HTTPAnswer(403, "the Origin of the request is a web page of another host; see --allow-browser")
        }
        return nil
    }

    /// By exactly one `Host`.
    static func namesThisMachine(_ headers: HTTPHeaders) -> Bool {
        let hosts = headers["Host"]
        return hosts.count == 1 && hosts.allSatisfy { (try? ServiceURL(base: "http://" + $0))?.isLoopback == true }
    }

    private func isOwnOrigin(_ origin: String) -> Bool {
        guard let url = try? ServiceURL(base: origin, allowInsecure: true) else { return false }
        return url.isLoopback || url.host == address?.lowercased()
    }
}
