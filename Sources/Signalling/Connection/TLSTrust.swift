// TLS to the service. Certificates are always fully verified, and that cannot be turned off; only the trusted roots can
// be chosen.
import DecartProtocol
import DecartSession
import EventLoopThreads
import MediaSecurity
import Synchronization

/// The certificate authorities that are trusted to sign the service's certificate.
package enum TLSTrust: Sendable, Equatable {
    case system
    /// The roots in a PEM file in addition to the system's.
    case systemAnd(file: String)
    /// The roots in a PEM file only.
    case only(file: String)

    /// Creates a TLS context. Blocks, because it reads files.
    /// - Parameter protocols: the protocols to offer by ALPN.
    func makeContext(protocols: [String] = ["http/1.1"]) throws(SessionError) -> TLSClientContext {
        let roots: TLSClientContext.Roots =
            switch self {
            case .system: .system
            case .systemAnd(let file): .systemAnd(try Self.read(file))
            case .only(let file): .only(try Self.read(file))
            }
        do throws(TLSError) {
            return try TLSClientContext(roots: roots, protocols: protocols)
        } catch {
            throw error.code == .noCertificate
                ? Self.refuse("contains no PEM certificate", file)
                : SessionError(.network, "TLS could not be set up. Check ca-file.", stage: .tls, isPermanent: true)
        }
    }

    /// Makes the context on a thread of its own, and passes it on, on the network thread.
    /// - Parameter fail: called instead of `completion` if there is no context, on the network thread too.
    static func prepare(
        _ trust: TLSTrust?, protocols: [String] = ["http/1.1"], on thread: NetworkThread,
        orElse fail: @escaping @Sendable (SessionError) -> Void,
        _ completion: @escaping @Sendable (TLSClientContext?) -> Void
    ) {
        guard let trust else { return thread.async { completion(nil) } }
        let isStarted = SerialQueue(label: "decart-trust").start {
            do throws(SessionError) {
                let context = try trust.makeContext(protocols: protocols)
                thread.async { completion(context) }
            } catch {
                thread.async { fail(error) }
            }
        }
        if !isStarted { thread.async { fail(ConnectFailure.noThread) } }
    }

    private static func refuse(_ reason: String, _ path: String) -> SessionError {
        SessionError(
            .invalidOptions, "ca-file \(reason). The file is '\(path.printable(limit: 200))'.", stage: .configuration,
            isPermanent: true)
    }

    private var file: String {
        switch self {
        case .system: ""
        case .systemAnd(let file), .only(let file): file
        }
    }

    private static func read(_ path: String) throws(SessionError) -> [UInt8] {
        do {
            return try BoundedFile.read(path: path, maximumSize: 4 << 20)
        } catch {
            switch error {
            case .notRegular: throw refuse("is not a regular file", path)
            case .tooLarge: throw refuse("is larger than 4 MiB", path)
            case .system(let reason): throw refuse("cannot be read: \(reason)", path)
            }
        }
    }
}

/// Converts TLS errors into sentences for the user.
enum TLSFailure {
    /// Returns nil if the connection was lost, which is no error of TLS.
    static func error(_ error: TLSError, host: String) -> SessionError? {
        func permanent(_ message: String) -> SessionError {
            SessionError(.network, message, stage: .tls, isPermanent: true)
        }
        func passing(_ message: String) -> SessionError { SessionError(.network, message, stage: .tls) }
        switch error.code {
        case .wrongHost: return permanent("The certificate of \(host) is for another host name. Check the URL.")
        case .expired:
            return permanent("The certificate of \(host) has expired. Renew it, or correct this machine's clock.")
        case .notYetValid:
            return permanent("The certificate of \(host) is not valid yet. Check this machine's clock.")
        case .untrusted:
            return permanent(
                "The certificate of \(host) is not trusted: its authority is unknown, or its chain is incomplete or "
                    + "damaged. For a private authority set ca-file.")
        case .weak:
            return permanent(
                "The certificate of \(host) is too weak: this system's OpenSSL does not accept its key or signature. Renew it."
            )
        case .noPeerCertificate: return permanent("\(host) sent no certificate that can be verified.")
        case .oldVersion:
            return permanent(
                "\(host) supports neither TLS 1.2 nor TLS 1.3; older versions are not accepted. Update it.")
        case .notTLS:
            return passing("\(host) does not use TLS on this port. Check scheme and port of the URL.")
        // RFC 8446 §6: certificate_required.
        case .alert(116):
            return permanent("\(host) demands a client certificate, which the elements do not have. Check the URL.")
        case .alert, .handshake, .limit: return passing("The TLS handshake with \(host) failed.")
        case .protocolError: return passing("The TLS connection to \(host) is lost after a protocol error.")
        case .setup, .noCertificate: return passing("The TLS connection to \(host) failed.")
        case .truncated, .endOfHandshake: return nil
        }
    }
}
