private import COpenSSL

/// The reason why TLS could not be set up, or why a connection failed.
package struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// OpenSSL could not create or configure an object, or the server name or an ALPN protocol cannot be sent.
        case setup
        /// The PEM file contains no certificate, or a damaged one.
        case noCertificate
        /// A certificate of the chain has expired.
        case expired
        /// A certificate of the chain is not valid yet.
        case notYetValid
        /// The peer's certificate is for another host name or address.
        case wrongHost
        /// The certificate's authority is unknown, or its chain is incomplete or damaged.
        case untrusted
        /// A key or signature of the chain is below OpenSSL's security level.
        case weak
        /// The peer sent no certificate.
        case noPeerCertificate
        /// The peers have no TLS version in common.
        case oldVersion
        /// The peer's first bytes are not TLS.
        case notTLS
        /// The peer sent this fatal alert (RFC 8446 §6).
        case alert(UInt8)
        /// The handshake failed for another reason.
        case handshake
        /// A damaged record after the handshake.
        case protocolError
        /// The TCP connection ended without close_notify: data may be missing.
        case truncated
        /// The peer ended the connection during the handshake.
        case endOfHandshake
        /// The peer sent more than a handshake, or than messages after it, can need.
        case limit
    }

    package let code: Code
    /// OpenSSL's error reasons, oldest first, for logs. They contain no key material.
    package let library: String?
    /// OpenSSL's `X509_V_ERR_…` if the certificate was refused.
    package let verifyResult: Int?

    package init(_ code: Code, library: String? = nil, verifyResult: Int? = nil) {
        self.code = code
        self.library = library
        self.verifyResult = verifyResult
    }

    package var description: String { library.map { "\(code) (\($0))" } ?? "\(code)" }

    /// Drains this thread's error queue into an error.
    static func drained(_ code: Code) -> TLSError { TLSError(code, library: ErrorQueue.drain().text) }

    /// Drains this thread's error queue into the error of a connection.
    /// - Parameter fallback: the code if OpenSSL names no special reason.
    static func drained(of ssl: OpaquePointer, fallback: Code) -> TLSError {
        let queue = ErrorQueue.drain()
        if queue.reasons.contains(SSL_R_CERTIFICATE_VERIFY_FAILED) { return refusal(SSL_get_verify_result(ssl)) }
        for reason in queue.reasons {
            switch reason {
            case SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION, SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW,
                SSL_R_WRONG_SSL_VERSION:
                return TLSError(.oldVersion, library: queue.text)
            case SSL_AD_REASON_OFFSET...(SSL_AD_REASON_OFFSET + 255):
                return TLSError(.alert(UInt8(clamping: reason - SSL_AD_REASON_OFFSET)), library: queue.text)
            // OpenSSL's reason for an empty Certificate message.
            case SSL_R_LENGTH_MISMATCH where SSL_get_state(ssl) == TLS_ST_CR_CERT:
                return TLSError(.noPeerCertificate, library: queue.text)
            default: continue
            }
        }
        return TLSError(fallback, library: queue.text)
    }

    private static func refusal(_ result: Int) -> TLSError {
        let code: Code =
            switch Int32(truncatingIfNeeded: result) {
            case X509_V_ERR_CERT_HAS_EXPIRED: .expired
            case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
            case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: .wrongHost
            case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_CA_MD_TOO_WEAK: .weak
            default: .untrusted
            }
        let text = X509_verify_cert_error_string(result).map { String(cString: $0) }
        return TLSError(code, library: text, verifyResult: result)
    }
}
