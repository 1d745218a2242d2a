package import EventLoopThreads
import Glibc
package import MediaSecurity

/// Why a connection could not be opened, or has failed. It names no host and no URL: the caller knows them.
package enum NetworkError: Error, Sendable, Equatable {
    case lookup(LookupFailure)
    /// `SourceAddresses` has none of the destination's family: its `absence`.
    case noSource(String)
    /// The system's error number.
    case system(CInt)
    /// No thread or no descriptor is left for a loop.
    case noLoop
    /// TCP was not connected in time.
    case timedOut
    /// TCP is connected, and the TLS handshake did not end in time.
    case handshakeTimedOut
    case tls(TLSError)
    case http(HTTPError)
    indirect case proxy(ProxyFailure)
    /// The connection ended where more was expected.
    case ended
}

/// What went wrong at an HTTP proxy.
package enum ProxyFailure: Error, Sendable, Equatable {
    case unreachable(NetworkError)
    case notHTTP
    /// It did not answer in time.
    case silent
    /// It closed the connection before it answered.
    case closed
    /// Its answer to CONNECT.
    case refused(status: Int)
}
