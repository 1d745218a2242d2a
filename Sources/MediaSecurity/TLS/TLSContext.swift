// Connections of one kind share an SSL_CTX. The settings of openssl.cnf's `system_default` section may
// restrict TLS further (groups, signature algorithms), but do not weaken it.
private import COpenSSL
private import Glibc

package enum TLSVersion: String, Sendable, CaseIterable {
    case tls10 = "TLS 1.0"
    case tls11 = "TLS 1.1"
    case tls12 = "TLS 1.2"
    case tls13 = "TLS 1.3"

    var number: Int32 {
        switch self {
        case .tls10: TLS1_VERSION
        case .tls11: TLS1_1_VERSION
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}

/// Trusted roots and options of clients.
// @unchecked: the SSL_CTX is not modified after `init`, and OpenSSL counts its references atomically.
package final class TLSClientContext: @unchecked Sendable {
    package enum Roots: Sendable, Hashable {
        /// OpenSSL's default file and directory of certificates, which `SSL_CERT_FILE` and `SSL_CERT_DIR` replace, as
        /// in all programs that use OpenSSL. The file is read once per process.
        case system
        /// The certificates of a PEM file in addition to the system's.
        case systemAnd([UInt8])
        /// The certificates of a PEM file only. As a user has named them, each is trusted, whether it is a root or not.
        case only([UInt8])
    }

    let context: OpaquePointer
    /// Differs between contexts with other roots.
    package let rootsHash: Int

    /// Blocks, because it reads files.
    /// - Parameter protocols: the protocols to offer by ALPN; empty: no ALPN.
    package init(roots: Roots, protocols: [String]) throws(TLSError) {
        context = try OpenSSLLibrary.use { () throws(TLSError) in try Self.make(roots, protocols) }
        rootsHash = roots.hashValue
    }

    private static func make(_ roots: Roots, _ protocols: [String]) throws(TLSError) -> OpaquePointer {
        ErrorQueue.clear()
        let store = try TrustStore.make(roots)
        let context = try makeContext(TLS_client_method(), minimum: .tls12, maximum: .tls13)
        SSL_CTX_set1_cert_store(context, store.pointer)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_verify_depth(context, 10)
        gst_decart_ctx_set_max_cert_list(context, TLSSession.maximumHandshakeBytes / 4)
        guard !protocols.isEmpty else { return context }
        // RFC 7301 §3.1: names with a length byte each.
        let names = protocols.map { Array($0.utf8) }
        let list = names.flatMap { [UInt8(truncatingIfNeeded: $0.count)] + $0 }
        guard names.allSatisfy({ (1...255).contains($0.count) }), let length = UInt32(exactly: list.count),
            // This function returns 0 on success.
            SSL_CTX_set_alpn_protos(context, list, length) == 0
        else {
            SSL_CTX_free(context)
            throw .drained(.setup)
        }
        return context
    }

    deinit { SSL_CTX_free(context) }
}

/// Certificate and private key of a server.
// @unchecked: the SSL_CTX is not modified after `init`, and OpenSSL counts its references atomically.
package final class TLSServerContext: @unchecked Sendable {
    let context: OpaquePointer

    /// Blocks, because it reads files.
    /// - Parameters:
    ///   - certificateChainFile: PEM, the server's own certificate first.
    ///   - privateKeyFile: PEM, not encrypted.
    ///   - maximumVersion: nil: TLS 1.2 and 1.3. TLS 1.1 or 1.0: versions from 1.0 up to this one, with the weak
    ///     signatures that they need.
    ///   - acceptsWeakCertificate: for tests of what a client refuses.
    package init(
        certificateChainFile: String, privateKeyFile: String, maximumVersion: TLSVersion? = nil,
        acceptsWeakCertificate: Bool = false
    ) throws(TLSError) {
        ErrorQueue.clear()
        let maximum = maximumVersion ?? .tls13
        let minimum = maximum.number < TLS1_2_VERSION ? TLSVersion.tls10 : .tls12
        context = try makeContext(TLS_server_method(), minimum: minimum, maximum: maximum)
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nil)
        SSL_CTX_set_num_tickets(context, 0)
        if acceptsWeakCertificate { SSL_CTX_set_security_level(context, 0) }
        guard SSL_CTX_use_certificate_chain_file(context, certificateChainFile) == 1,
            SSL_CTX_use_PrivateKey_file(context, privateKeyFile, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_check_private_key(context) == 1
        else { throw .drained(.setup) }
    }

    deinit { SSL_CTX_free(context) }
}

/// TLS 1.2 with forward secrecy first, then what old servers need.
private let ciphers =
    "ECDH+AESGCM:ECDH+CHACHA20:DH+AESGCM:DH+CHACHA20:ECDH+AES:DH+AES:RSA+AESGCM:RSA+AES:!aNULL:!eNULL:!MD5"

private func makeContext(
    _ method: OpaquePointer?, minimum: TLSVersion, maximum: TLSVersion
) throws(TLSError) -> OpaquePointer {
    guard OpenSSLLibrary.isPrepared, let context = SSL_CTX_new(method) else { throw .drained(.setup) }
    gst_decart_ctx_set_tls_options(context)
    gst_decart_ctx_set_tls_mode(context)
    gst_decart_ctx_disable_cache(context)
    // OpenSSL would ask for a password on the host's terminal.
    SSL_CTX_set_default_passwd_cb(context, noPassword)
    guard gst_decart_ctx_set_versions(context, minimum.number, maximum.number) == 1,
        SSL_CTX_set_cipher_list(context, ciphers) == 1
    else {
        SSL_CTX_free(context)
        throw .drained(.setup)
    }
    // TLS 1.1 signs with MD5 and SHA-1.
    SSL_CTX_set_security_level(context, maximum.number < TLS1_2_VERSION ? 0 : 2)
    return context
}

private func noPassword(_: UnsafeMutablePointer<CChar>?, _: Int32, _: Int32, _: UnsafeMutableRawPointer?) -> Int32 {
    -1
}

/// Certificates that a client trusts.
// @unchecked: OpenSSL locks an X509_STORE, which connections on several threads use.
private final class TrustStore: @unchecked Sendable {
    let pointer: OpaquePointer

    private init?() {
        guard OpenSSLLibrary.isPrepared, let pointer = X509_STORE_new() else { return nil }
        self.pointer = pointer
    }

    deinit { X509_STORE_free(pointer) }

    static func make(_ roots: TLSClientContext.Roots) throws(TLSError) -> TrustStore {
        switch roots {
        case .system:
            guard let system else { throw .drained(.setup) }
            return system
        case .systemAnd(let pem), .only(let pem):
            guard let store = TrustStore() else { throw .drained(.setup) }
            if case .systemAnd = roots, !store.addSystem() { throw .drained(.setup) }
            X509_STORE_set_flags(store.pointer, UInt(X509_V_FLAG_PARTIAL_CHAIN))
            guard store.add(pem) else { throw .drained(.noCertificate) }
            return store
        }
    }

    private static let system: TrustStore? = {
        guard let store = TrustStore(), store.addSystem() else { return nil }
        return store
    }()

    /// Reads the file, and lets OpenSSL find further roots in the directory by the hashes of their names when a chain
    /// needs them. Missing ones are not an error: no server is trusted then.
    private func addSystem() -> Bool {
        guard let file = X509_STORE_add_lookup(pointer, X509_LOOKUP_file()),
            let directory = X509_STORE_add_lookup(pointer, X509_LOOKUP_hash_dir())
        else { return false }
        X509_LOOKUP_ctrl(file, X509_L_FILE_LOAD, nil, Int(X509_FILETYPE_DEFAULT), nil)
        X509_LOOKUP_ctrl(directory, X509_L_ADD_DIR, nil, Int(X509_FILETYPE_DEFAULT), nil)
        ErrorQueue.clear()
        return true
    }

    /// Adds the certificates of a PEM file. Returns false if there are none or if one is damaged.
    private func add(_ pem: [UInt8]) -> Bool {
        pem.withUnsafeBytes { bytes in
            guard let count = Int32(exactly: bytes.count), let bio = BIO_new_mem_buf(bytes.baseAddress, count) else {
                return false
            }
            defer { BIO_free(bio) }
            var added = 0
            while let certificate = PEM_read_bio_X509(bio, nil, noPassword, nil) {
                defer { X509_free(certificate) }
                guard X509_STORE_add_cert(pointer, certificate) == 1 else { return false }
                added += 1
            }
            let end = ERR_peek_last_error()
            guard added > 0, ERR_GET_LIB(end) == ERR_LIB_PEM, ERR_GET_REASON(end) == PEM_R_NO_START_LINE else {
                return false
            }
            ErrorQueue.clear()
            return true
        }
    }
}
