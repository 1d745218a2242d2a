// The files of the page, compiled into the program, with the headers that they are served with.
import DecartProtocol

enum PageFiles {
    static let paths: Set<String> = ["/", "/page.js", "/page.css"]

    /// Returns nil for another path.
    /// - Parameters:
    ///   - service: URL of the service, which the page may connect to.
    ///   - isForeign: the files need the token too.
    static func answer(_ path: String, token: String, host: String, service: String, isForeign: Bool) -> HTTPAnswer? {
        let (type, bytes): (String, [UInt8])
        switch path {
        case "/": (type, bytes) = ("text/html; charset=utf-8", PackageResources.page_html)
        case "/page.js": (type, bytes) = ("text/javascript; charset=utf-8", PackageResources.page_js)
        case "/page.css": (type, bytes) = ("text/css; charset=utf-8", PackageResources.page_css)
        default: return nil
        }
        var answer = HTTPAnswer(200, "the page")
        answer.contentType = type
        let text = String(decoding: bytes, as: UTF8.self)
        let page = text.replacing("@TOKEN@", with: token).replacing("@QUERY@", with: isForeign ? "?token=\(token)" : "")
        answer.body = path == "/" ? page : text
        answer.headers = headers(host: host, service: service)
        // Browsers ignore it without https, with a warning, except from this machine.
        if isForeign { answer.headers["Cross-Origin-Opener-Policy"] = nil }
        return answer
    }

    private static func headers(host: String, service: String) -> [String: String] {
        let policy = [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src data:",
            "connect-src 'self' ws://\(host) \(service)", "base-uri 'none'", "form-action 'none'",
            "frame-ancestors 'none'",
        ]
        return [
            "Content-Security-Policy": policy.joined(separator: "; "), "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
        ]
    }
}
