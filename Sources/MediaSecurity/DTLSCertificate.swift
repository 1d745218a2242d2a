private import COpenSSL

/// A self-signed certificate for one session, with its private key.
// @unchecked: X509 and EVP_PKEY are not modified after `generate`, and their reference counts are atomic.
package final class DTLSCertificate: @unchecked Sendable {
    package enum KeyKind: Sendable {
        /// The default: fast, small, and supported by every WebRTC implementation.
        case p256
        /// The key type of Debian 12's webrtcbin, for peers that support no other one and for tests.
        case rsa2048
    }

    package let fingerprint: Fingerprint

    /// Both pointers hold one reference.
    private let certificate: OpaquePointer
    private let key: OpaquePointer

    private init(taking certificate: OpaquePointer, key: OpaquePointer, fingerprint: Fingerprint) {
        self.certificate = certificate
        self.key = key
        self.fingerprint = fingerprint
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
    }

    package static func generate(_ kind: KeyKind = .p256) throws(DTLSError) -> DTLSCertificate {
        guard OpenSSLLibrary.isPrepared else { throw .drained(.setup, "OpenSSL could not be initialised") }
        return try OpenSSLLibrary.use { () throws(DTLSError) in try make(kind) }
    }

    private static func make(_ kind: KeyKind) throws(DTLSError) -> DTLSCertificate {
        ERR_clear_error()
        let key =
            switch kind {
            case .p256: gst_decart_generate_p256()
            case .rsa2048: gst_decart_generate_rsa2048()
            }
        guard let key else { throw .drained(.setup, "no key pair") }
        guard let certificate = X509_new() else {
            EVP_PKEY_free(key)
            throw .drained(.setup, "no certificate")
        }
        guard fill(certificate, key: key), let fingerprint = Self.fingerprint(of: certificate, hash: .sha256) else {
            X509_free(certificate)
            EVP_PKEY_free(key)
            throw .drained(.setup, "the certificate could not be signed")
        }
        return DTLSCertificate(taking: certificate, key: key, fingerprint: fingerprint)
    }

    /// Fills in an X.509 v3 certificate. The serial number is random and the name constant, so that the certificate
    /// identifies neither the machine nor the session.
    private static func fill(_ certificate: OpaquePointer, key: OpaquePointer) -> Bool {
        var serial: UInt32 = 0
        let drawn = withUnsafeMutableBytes(of: &serial) { bytes in
            RAND_bytes(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(clamping: bytes.count))
        }
        // A serial number must be positive, and a C `long` may have 32 bits.
        let number = Int(serial & 0x7fff_ffff) | 1
        let day = 24 * 60 * 60
        guard drawn == 1,
            X509_set_version(certificate, 2) == 1,
            ASN1_INTEGER_set(X509_get_serialNumber(certificate), number) == 1,
            // Tolerates clocks that differ by up to a day.
            X509_gmtime_adj(X509_getm_notBefore(certificate), -day) != nil,
            X509_gmtime_adj(X509_getm_notAfter(certificate), 30 * day) != nil,
            X509_set_pubkey(certificate, key) == 1,
            let name = X509_get_subject_name(certificate)
        else { return false }
        let common = Array("WebRTC".utf8)
        guard X509_NAME_add_entry_by_txt(name, "CN", Int32(MBSTRING_ASC), common, Int32(common.count), -1, 0) == 1,
            X509_set_issuer_name(certificate, name) == 1
        else { return false }
        return X509_sign(certificate, key, EVP_sha256()) > 0
    }

    static func fingerprint(of certificate: OpaquePointer, hash: Fingerprint.Hash) -> Fingerprint? {
        let method =
            switch hash {
            case .sha256: EVP_sha256()
            case .sha384: EVP_sha384()
            case .sha512: EVP_sha512()
            }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        guard X509_digest(certificate, method, &digest, &length) == 1, Int(length) == hash.length else { return nil }
        return Fingerprint(hash: hash, digest: Array(digest.prefix(hash.length)))
    }

    /// Installs certificate and key in a context, which takes its own references.
    func install(in context: OpaquePointer) -> Bool {
        SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1
            && SSL_CTX_check_private_key(context) == 1
    }
}
