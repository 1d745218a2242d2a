private import COpenSSL

/// The SSL_CTX settings of all associations: version, ciphers, SRTP profiles and certificate verification.
enum DTLSContext {
    /// AES-GCM with forward secrecy, for peers with an ECDSA (aiortc) or an RSA certificate (webrtcbin).
    private static let ciphers =
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
        + "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"

    /// - Returns: an owned `SSL_CTX`. It does not retain `verifier`, which must live as long.
    static func make(
        certificate: DTLSCertificate, profiles: [SRTPProfile], verifier: PeerVerifier
    ) throws(DTLSError) -> OpaquePointer {
        guard OpenSSLLibrary.isPrepared, let context = SSL_CTX_new(DTLS_method()) else {
            throw .drained(.setup, "no DTLS context")
        }
        gst_decart_ctx_set_options(context)
        gst_decart_ctx_disable_cache(context)
        gst_decart_ctx_set_max_cert_list(context, 32 * 1_024)
        guard gst_decart_ctx_set_versions(context, DTLS1_2_VERSION, DTLS1_2_VERSION) == 1,
            SSL_CTX_set_cipher_list(context, ciphers) == 1,
            gst_decart_ctx_set_groups(context, "X25519:P-256:P-384") == 1,
            // This function returns 0 on success.
            SSL_CTX_set_tlsext_use_srtp(context, profiles.map(\.opensslName).joined(separator: ":")) == 0,
            certificate.install(in: context)
        else {
            SSL_CTX_free(context)
            throw .drained(.setup, "the DTLS context could not be configured")
        }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        SSL_CTX_set_cert_verify_callback(
            context,
            { store, data in
                guard let store, let data, let certificate = X509_STORE_CTX_get0_cert(store) else { return 0 }
                let verifier = Unmanaged<PeerVerifier>.fromOpaque(data).takeUnretainedValue()
                if verifier.admits(certificate) { return 1 }
                // OpenSSL then sends an alert, so that the peer learns of the failure at once.
                X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED)
                return 0
            }, Unmanaged.passUnretained(verifier).toOpaque())
        return context
    }
}

/// Compares the peer's certificate with the fingerprints from signalling. It ignores chain and validity dates, because
/// the certificates are self-signed (RFC 8827 §6.5).
final class PeerVerifier {
    /// The fingerprints from signalling; nil until they arrive.
    var expected: [Fingerprint]?
    private(set) var hasRefused = false

    /// Verification during the handshake. Returns true while the fingerprints are unknown: `DTLSConnection` verifies
    /// again before it exports keys.
    func admits(_ certificate: OpaquePointer) -> Bool {
        guard expected != nil, !matches(certificate) else { return true }
        hasRefused = true
        return false
    }

    func matches(_ certificate: OpaquePointer) -> Bool {
        guard let expected else { return false }
        return expected.contains { DTLSCertificate.fingerprint(of: certificate, hash: $0.hash) == $0 }
    }
}
