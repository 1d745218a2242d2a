private import COpenSSL

/// An `SSL` between two memory BIOs, for TLS and DTLS: bytes from the peer go in, bytes for the peer come out.
final class MemoryConnection {
    enum Outcome {
        /// The call has succeeded; for data, with this number of bytes.
        case done(Int)
        /// More bytes from the peer are needed.
        case wantsInput
        /// The peer has sent close_notify.
        case closed
        /// The error queue holds the reason.
        case failed
    }

    let ssl: OpaquePointer
    /// `ssl` owns the BIOs.
    private let inbound: OpaquePointer
    private let outbound: OpaquePointer

    /// Returns nil if OpenSSL has no memory; the error queue holds the reason.
    init?(context: OpaquePointer) {
        ERR_clear_error()
        let (ssl, inbound, outbound) = (SSL_new(context), gst_decart_memory_bio(), gst_decart_memory_bio())
        guard let ssl, let inbound, let outbound else {
            SSL_free(ssl)
            for bio in [inbound, outbound] { BIO_free(bio) }
            return nil
        }
        SSL_set_bio(ssl, inbound, outbound)
        (self.ssl, self.inbound, self.outbound) = (ssl, inbound, outbound)
    }

    deinit { SSL_free(ssl) }

    /// Adds bytes from the peer to those that OpenSSL has not read yet.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var written = 0
        return bytes.isEmpty
            || BIO_write_ex(inbound, bytes.baseAddress, bytes.count, &written) == 1 && written == bytes.count
    }

    /// Drops what OpenSSL has not read: a datagram is read at once or never.
    func discardInput() { gst_decart_bio_reset(inbound) }

    /// The number of bytes for the peer.
    var outputCount: Int { max(gst_decart_bio_pending(outbound), 0) }

    /// Takes the bytes for the peer.
    func takeOutput() -> [UInt8] {
        let pending = outputCount
        guard pending > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: pending) { buffer, count in
            if BIO_read_ex(outbound, buffer.baseAddress, buffer.count, &count) != 1 { count = 0 }
        }
    }

    /// Makes a call that returns a positive number for success. The error queue is empty afterwards unless it failed.
    func call(_ operation: (OpaquePointer) -> Int32) -> Outcome {
        ERR_clear_error()
        let result = operation(ssl)
        if result > 0 { return .done(Int(result)) }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            ERR_clear_error()
            return .wantsInput
        case SSL_ERROR_ZERO_RETURN:
            ERR_clear_error()
            return .closed
        default:
            return .failed
        }
    }

    func handshake() -> Outcome { call(SSL_do_handshake) }

    /// Reads decrypted data.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        call { SSL_read($0, buffer.baseAddress, Int32(clamping: buffer.count)) }
    }

    /// Queues close_notify.
    func shutDown() {
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
        ERR_clear_error()
    }

    /// Calls `body` with the peer's certificate, if it has sent one.
    func withPeerCertificate<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return nil }
        defer { X509_free(certificate) }
        return body(certificate)
    }

    var cipher: String { SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)).map { String(cString: $0) } ?? "" }
    var version: String { SSL_get_version(ssl).map { String(cString: $0) } ?? "" }
}
