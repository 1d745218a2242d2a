private import COpenSSL

/// Keyed message authentication codes (RFC 2104).
package enum MessageAuthentication {
    /// Computes HMAC-SHA-256, 32 bytes; nil if OpenSSL fails.
    package static func sha256(key: [UInt8], message: [UInt8]) -> [UInt8]? {
        guard OpenSSLLibrary.isPrepared else { return nil }
        var output = [UInt8](repeating: 0, count: 32)
        var length = 0
        let made = EVP_Q_mac(
            nil, "HMAC", nil, "SHA256", nil, key, key.count, message, message.count, &output, output.count, &length)
        return made != nil && length == output.count ? output : nil
    }

    /// Compares in constant time for values of equal length.
    package static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
