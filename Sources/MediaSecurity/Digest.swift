private import COpenSSL

/// SHA-1, 20 bytes, for the handshake of WebSocket (RFC 6455 §4.2.2), which needs no collision resistance. Empty if
/// OpenSSL fails.
package func sha1(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 20)
    var length = digest.count
    guard OpenSSLLibrary.isPrepared,
        EVP_Q_digest(nil, "SHA1", nil, bytes, bytes.count, &digest, &length) == 1, length == digest.count
    else { return [] }
    return digest
}
