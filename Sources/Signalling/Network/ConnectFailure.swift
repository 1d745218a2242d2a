import DecartProtocol
import DecartSession
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix

/// Converts network errors below the WebSocket into sentences that name the host and the cause, never a URL.
enum ConnectFailure {
    static func error(_ error: any Error, host: String, port: Int) -> SessionError {
        switch error {
        case let error as SessionError:
            return error
        case let error as NIOConnectionError:
            if let resolve = (error.dnsAError ?? error.dnsAAAAError) as? ResolveError {
                return self.error(resolve, host: host)
            }
            // Several addresses may have failed: prefer a refused connection, which says most, else take the last
            // error.
            let failures = error.connectionErrors.map(\.error)
            let refusal = failures.first { ($0 as? IOError)?.errnoCode == ECONNREFUSED }
            return self.error(refusal ?? failures.last ?? ChannelError.eof, host: host, port: port)
        case let error as ResolveError:
            return self.error(error, host: host)
        case let error as IOError:
            return SessionError(
                .network, "Connecting to \(host):\(port) failed: \(words(error.errnoCode)).", stage: .connect)
        case ChannelError.connectTimeout:
            return timeout(host: host, port: port)
        case is HTTPParserError:
            return SessionError(
                .webSocket, "\(host):\(port) does not answer with HTTP within its limits.", stage: .upgrade)
        default:
            return SessionError(.network, "The connection to \(host):\(port) was lost.", stage: .channel)
        }
    }

    private static func error(_ error: ResolveError, host: String) -> SessionError {
        let message =
            switch error.reason {
            case .unknownHost: "Unknown host \(host)."
            case .noAnswer: "The name \(host) could not be looked up: no answer from the name server."
            case .timeout: "The name \(host) could not be looked up in time."
            }
        return SessionError(.network, message, stage: .resolve)
    }

    static func timeout(host: String, port: Int) -> SessionError {
        SessionError(.connectionTimeout, "\(host):\(port) does not answer (connecting timed out).", stage: .connect)
    }

    private static func words(_ code: CInt) -> String {
        switch code {
        case ECONNREFUSED: "connection refused"
        case ECONNRESET: "connection reset"
        case EPIPE: "connection closed"
        case ENETUNREACH: "network unreachable"
        case EHOSTUNREACH: "host unreachable"
        case ETIMEDOUT: "timed out"
        case EACCES, EPERM: "not permitted"
        case EMFILE, ENFILE: "too many open files"
        case EADDRNOTAVAIL: "no local address or port available"
        default: "system error \(code)"
        }
    }
}
