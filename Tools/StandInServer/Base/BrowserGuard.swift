// Blocks web pages of other origins: a page that the developer visits must neither open, watch nor control sessions.
import DecartProtocol
import Network

struct BrowserGuard: Sendable {
    /// Pages of any origin may connect, with any `Host`.
    var allowsBrowsers = false
    /// Listen address; nil: loopback.
    var address: String?
    /// Host of the page for other machines, which is a client of the service.
    var pageHost: String?

    /// Returns nil if the request is allowed.
    func refusal(of headers: HTTPFields) -> HTTPAnswer? {
        guard !allowsBrowsers else { return nil }
        // DNS rebinding: a page's host name can resolve to this machine, and its browser then sends that name as
        // `Host`. Skipped for other listen addresses, because the host names of this machine are not known here.
        if HTTPURL.isLoopback(host: address ?? "localhost"), !Self.namesThisMachine(headers) {
            return HTTPAnswer(403, "the Host of the request is no loopback name or address; see --allow-browser")
        }
        // Browsers send the page's origin with each upgrade. Some other clients send the service's own origin.
        guard headers["Origin"].allSatisfy(isOwnOrigin) else {
            return HTTPAnswer(403, "the Origin of the request is a web page of another host; see --allow-browser")
        }
        return nil
    }

    /// True if there is exactly one `Host` and it is a loopback name or address.
    static func namesThisMachine(_ headers: HTTPFields) -> Bool {
        let hosts = headers["Host"]
        return hosts.count == 1 && hosts.allSatisfy { (try? ServiceURL(base: "http://" + $0))?.isLoopback == true }
    }

    /// A host for comparisons: in lower case, without the brackets of IPv6.
    static func plain(_ host: String) -> String { host.lowercased().filter { $0 != "[" && $0 != "]" } }

    private func isOwnOrigin(_ origin: String) -> Bool {
        guard let url = try? ServiceURL(base: origin, allowInsecure: true) else { return false }
        let hosts = [address, pageHost].compactMap { $0 }.map(Self.plain)
        return url.isLoopback || hosts.contains(Self.plain(url.host))
    }
}
