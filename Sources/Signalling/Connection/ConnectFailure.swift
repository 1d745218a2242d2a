import DecartProtocol
import DecartSession
import EventLoopThreads
import Glibc
import MediaSecurity
import Network

/// Converts errors of TCP, TLS, HTTP and proxies into sentences that name the host and the cause, never a URL.
enum ConnectFailure {
    static func error(_ error: NetworkError, host: String, port: Int, proxy: ProxyURL?) -> SessionError {
        switch error {
        case .lookup(let failure): self.error(failure, host: host)
        case .noSource(let absence): SessionError(.network, absence.capitalizedFirst + ".", stage: .connect)
        case .system(let code):
            SessionError(.network, "The connection to \(host):\(port) failed: \(reason(code)).", stage: .connect)
        case .noLoop: noThread
        case .timedOut, .handshakeTimedOut: timeout(host: host, port: port)
        case .tls(let error): TLSFailure.error(error, host: host) ?? lost(host, port)
        case .http(.truncated), .ended: lost(host, port)
        case .http:
            SessionError(
                .webSocket,
                "The response of \(host):\(port) is not HTTP, or its header is too large. Check the port.",
                stage: .upgrade)
        case .proxy(let failure):
            if let proxy {
                self.error(failure, of: proxy, to: "\(host.contains(":") ? "[\(host)]" : host):\(port)")
            } else {
                lost(host, port)
            }
        }
    }

    /// The failure of an unencrypted request before an answer. A server of TLS closes a connection that begins with HTTP, or
    /// answers with an alert. nil: another failure.
    static func noHTTP(_ error: NetworkError, host: String, port: Int) -> SessionError? {
        let code: DecartErrorCode
        switch error {
        case .ended, .http(.truncated), .system(ECONNRESET): code = .network
        case .http: code = .webSocket
        default: return nil
        }
        return SessionError(
            code,
            "\(host):\(port) did not answer the request in HTTP. If it speaks TLS, use wss:// or https://; else check the "
                + "port.", stage: .upgrade)
    }

    static var noThread: SessionError {
        SessionError(
            .network, "The process has no thread or descriptor left for a connection. Raise its limits.",
            stage: .connect)
    }

    private static func lost(_ host: String, _ port: Int) -> SessionError {
        SessionError(.network, "The connection to \(host):\(port) was lost.", stage: .channel)
    }

    static func error(_ failure: LookupFailure, host: String) -> SessionError {
        let message =
            switch failure {
            case .unknownHost: "The host \(host) is unknown. Check its spelling and the name server."
            case .noAnswer: "The name server did not answer for \(host). Check the network."
            case .timeout: "The name server did not answer for \(host) in time. Check the network."
            case .notPermitted:
                "The server redirects to \(host), which is this machine or on its link. Set that URL if it is meant."
            case .noThread:
                "The host \(host) cannot be looked up: the process has no thread left, or too many lookups wait. "
                    + "Raise its limit of threads, or check the name server."
            }
        return SessionError(.network, message, stage: .resolve)
    }

    static func timeout(host: String, port: Int) -> SessionError {
        SessionError(
            .connectionTimeout,
            "\(host):\(port) did not accept the connection in time. Check the address, the network and firewalls.",
            stage: .connect)
    }

    private static func reason(_ code: CInt) -> String {
        switch code {
        case ECONNREFUSED: "connection refused; check that the server runs on this port"
        case ECONNRESET: "connection reset"
        case EPIPE: "connection closed"
        case ENETUNREACH: "network unreachable; check the network of this machine"
        case EHOSTUNREACH: "host unreachable; check base-url and the network"
        case ETIMEDOUT: "timed out"
        case EACCES, EPERM: "not permitted"
        case EMFILE, ENFILE: "too many open files; raise the limit"
        case EADDRNOTAVAIL: "no local address or port available"
        default: "system error \(code)"
        }
    }

    /// The failure of a proxy says nothing about the server behind it.
    /// - Parameter target: host and port of the server.
    private static func error(_ failure: ProxyFailure, of proxy: ProxyURL, to target: String) -> SessionError {
        func network(_ message: String, isPermanent: Bool = false) -> SessionError {
            SessionError(
                .network, "The HTTP proxy \(proxy.place) \(message)", stage: .connect, isPermanent: isPermanent)
        }
        switch failure {
        case .unreachable(let cause):
            var error = self.error(cause, host: proxy.host, port: proxy.port, proxy: nil)
            error.message = "The HTTP proxy cannot be reached. \(error.message) Check http-proxy."
            return error
        case .notHTTP: return network("answered with something else than HTTP. Check the port of http-proxy.")
        case .silent:
            return SessionError(
                .connectionTimeout,
                "The HTTP proxy \(proxy.place) did not connect to \(target) in time. Check the proxy and the service.",
                stage: .connect)
        case .closed:
            return network("closed the connection before it answered. Check that http-proxy names an HTTP proxy.")
        case .refused(407) where proxy.authorization == nil:
            return network(
                "requires a user name and a password (HTTP 407). Set http-proxy=http://user:password@host:port.",
                isPermanent: true)
        // tinyproxy answers wrong credentials with 401.
        case .refused(let status) where status == 407 || status == 401:
            return network(
                "rejected the user name or the password (HTTP \(status)), or wants another authentication than Basic. "
                    + "Correct http-proxy.", isPermanent: true)
        case .refused(let status) where status == 403 || status == 405:
            return network(
                "refuses connections to \(target) (HTTP \(status)). Permit CONNECT to it in the proxy.",
                isPermanent: true)
        // squid answers 500 if the name server does not answer; 501 is a server's that knows no CONNECT.
        case .refused(let status) where status == 500 || (502...504).contains(status):
            return network("cannot reach \(target) (HTTP \(status)). Check the service and the proxy's log.")
        case .refused(let status):
            return network(
                "answered with HTTP \(status) to CONNECT \(target). Check that http-proxy names an HTTP proxy.")
        }
    }
}
