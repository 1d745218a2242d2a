// TLS to the service. Certificates are always fully verified, and that cannot be turned off; only the trusted roots can
// be chosen.
import DecartProtocol
import DecartSession
import Glibc
import NIOCore
import NIOSSL

/// The certificate authorities that are trusted to sign the service's certificate.
package enum TLSTrust: Sendable, Equatable {
    case system
    /// The roots in a PEM file in addition to the system's.
    case systemAnd(file: String)
    /// The roots in a PEM file only.
    case only(file: String)

    /// Creates a TLS context. Blocks, because it reads files.
    /// - Parameter protocols: the protocols to offer by ALPN.
    func makeContext(protocols: [String] = ["http/1.1"]) throws(SessionError) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.certificateVerification = .fullVerification
        configuration.applicationProtocols = protocols
        switch self {
        case .system: break
        case .systemAnd(let file):
            configuration.additionalTrustRoots = [.certificates(try TLSTrust.certificates(file))]
        case .only(let file):
            configuration.trustRoots = .certificates(try TLSTrust.certificates(file))
        }
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw SessionError(.network, "TLS could not be set up. Check ca-file.", stage: .tls, isPermanent: true)
        }
    }

    private static func certificates(_ path: String) throws(SessionError) -> [NIOSSLCertificate] {
        func refuse(_ reason: String) -> SessionError {
            SessionError(.invalidOptions, "ca-file \(reason).", stage: .configuration, isPermanent: true)
        }
        let bytes: [UInt8]
        do {
            bytes = try BoundedFile.read(path: path, maximumSize: 4 << 20)
        } catch {
            switch error {
            case .notRegular: throw refuse("is not a regular file")
            case .tooLarge: throw refuse("is larger than 4 MiB")
            case .system(let reason): throw refuse("cannot be read: \(reason)")
            }
        }
        guard let certificates = try? NIOSSLCertificate.fromPEMBytes(bytes), !certificates.isEmpty else {
            throw refuse("contains no PEM certificate")
        }
        return certificates
    }
}

extension ChannelHandlerContext {
    /// The channel's TLS, if it has any.
    var tls: NIOSSLClientHandler? { try? pipeline.syncOperations.handler(type: NIOSSLClientHandler.self) }
}

/// Converts TLS errors into sentences for the user.
struct TLSFailure {
    /// Returns nil if the error is not about TLS.
    static func error(_ error: any Error, host: String, certificate: NIOSSLCertificate?) -> SessionError? {
        func permanent(_ message: String) -> SessionError {
            SessionError(.network, message, stage: .tls, isPermanent: true)
        }
        if let extra = error as? NIOSSLExtraError {
            if extra == .failedToValidateHostname {
                return permanent("The certificate of \(host) is for another host name. Check the URL.")
            }
            return permanent("The TLS identity of \(host) could not be verified. Check the URL.")
        }
        guard let tls = error as? NIOSSLError else {
            // Raised outside a handshake, by a damaged or truncated record.
            if error is BoringSSLError {
                return SessionError(
                    .network, "The TLS connection to \(host) is lost after a protocol error.", stage: .tls)
            }
            return nil
        }
        switch tls {
        case .handshakeFailed(let reason):
            let text = String(describing: reason)
            if text.contains("CERTIFICATE_VERIFY_FAILED") {
                return permanent(certificateProblem(host, certificate))
            }
            if text.contains("PROTOCOL_VERSION") || text.contains("UNSUPPORTED_PROTOCOL") {
                return permanent("\(host) supports neither TLS 1.2 nor TLS 1.3; older versions are not accepted.")
            }
            if text.contains("WRONG_VERSION_NUMBER") || text.contains("HTTP_REQUEST") {
                return SessionError(
                    .network, "\(host) does not use TLS on this port. Check scheme and port of the URL.", stage: .tls)
            }
            return SessionError(.network, "The TLS handshake with \(host) failed.", stage: .tls)
        case .noCertificateToValidate, .unableToValidateCertificate:
            return permanent("\(host) sent no certificate that can be verified.")
        case .uncleanShutdown:
            return nil
        default:
            return SessionError(.network, "The TLS connection to \(host) failed.", stage: .tls)
        }
    }

    // BoringSSL reports only that verification failed. The dates serve to word the error and decide nothing.
    private static func certificateProblem(_ host: String, _ certificate: NIOSSLCertificate?) -> String {
        let now = time(nil)
        if let certificate, certificate.notValidAfter < now {
            return "The certificate of \(host) has expired. Renew it, or correct this machine's clock."
        }
        if let certificate, certificate.notValidBefore > now {
            return "The certificate of \(host) is not valid yet. Check this machine's clock."
        }
        return "The certificate of \(host) is not trusted: its authority is unknown, or its chain is incomplete or "
            + "damaged. For a private authority set ca-file."
    }
}
