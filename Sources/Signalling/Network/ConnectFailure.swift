import DecartProtocol
import DecartSession
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Converts errors of TCP, TLS and HTTP into sentences that name the host and the cause, never a URL.
enum ConnectFailure {
    static func error(
        _ error: any Error, host: String, port: Int, certificate: NIOSSLCertificate? = nil
    ) -> SessionError {
        if let failure = TLSFailure.error(error, host: host, certificate: certificate) { return failure }
        switch error {
        case let error as SessionError:
            return error
        case let error as ProxyFailure:
            return error.error
        case let error as NetworkRoute.Source.NoAddress:
            return SessionError(.network, error.reason.capitalizedFirst + ".", stage: .connect)
        case let error as NIOConnectionError:
            if let resolve = (error.dnsAError ?? error.dnsAAAAError) as? ResolveError {
                return self.error(resolve, host: host)
            }
            // Several addresses may have failed: prefer a refused connection, which says most, else take the last
            // error.
            let errors = error.connectionErrors.map(\.error)
            // local-address may have an address of one family only.
            let attempts = errors.filter { !($0 is NetworkRoute.Source.NoAddress) }
            let failures = attempts.isEmpty ? errors : attempts
            let refusal = failures.first { ($0 as? IOError)?.errnoCode == ECONNREFUSED }
            return self.error(refusal ?? failures.last ?? ChannelError.eof, host: host, port: port)
        case let error as ResolveError:
            return self.error(error, host: host)
        case let error as IOError:
            return SessionError(
                .network, "The connection to \(host):\(port) failed: \(reason(error.errnoCode)).", stage: .connect)
        case ChannelError.connectTimeout:
            return timeout(host: host, port: port)
        case is HTTPParserError:
            return SessionError(
                .webSocket,
                "The response of \(host):\(port) is not HTTP, or its header is too large. Check the port.",
                stage: .upgrade)
        default:
            return SessionError(.network, "The connection to \(host):\(port) was lost.", stage: .channel)
        }
    }

    private static func error(_ error: ResolveError, host: String) -> SessionError {
        let message =
            switch error.reason {
            case .unknownHost: "The host \(host) is unknown. Check its spelling and the name server."
            case .noAnswer: "The name server did not answer for \(host). Check the network."
            case .timeout: "The name server did not answer for \(host) in time. Check the network."
            case .local:
                "The server redirects to \(host), which is this machine or on its link. Set that URL if it is meant."
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
        case ENETUNREACH: "network unreachable"
        case EHOSTUNREACH: "host unreachable"
        case ETIMEDOUT: "timed out"
        case EACCES, EPERM: "not permitted"
        case EMFILE, ENFILE: "too many open files; raise the limit"
        case EADDRNOTAVAIL: "no local address or port available"
        default: "system error \(code)"
        }
    }
}
