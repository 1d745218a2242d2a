private import COpenSSL

/// Keyed message authentication codes (RFC 2104).
package enum MessageAuthentication {
    /// Computes HMAC-SHA-256, 32 bytes; nil if OpenSSL fails.
    package static func sha256(key: [UInt8], message: [UInt8]) -> [UInt8]? {
        code("SHA256", size: 32, key: key, message: message)
    }

    /// Computes HMAC-SHA-1, 20 bytes, for STUN (RFC 8489 §14.5); nil if OpenSSL fails.
    package static func sha1(key: [UInt8], message: [UInt8]) -> [UInt8]? {
        code("SHA1", size: 20, key: key, message: message)
    }

    /// Computes the MD5 digest, 16 bytes, for the keys of TURN (RFC 8489 §9.2.2); nil if OpenSSL lacks it.
    package static func md5(_ message: [UInt8]) -> [UInt8]? {
        var output = [UInt8](repeating: 0, count: 16)
        var length = 0
        let status = EVP_Q_digest(nil, "MD5", nil, message, message.count, &output, &length)
        return status == 1 && length == output.count ? output : nil
    }

    private static func code(_ digest: String, size: Int, key: [UInt8], message: [UInt8]) -> [UInt8]? {
        var output = [UInt8](repeating: 0, count: size)
        var length = 0
        let made = EVP_Q_mac(
            nil, "HMAC", nil, digest, nil, key, key.count, message, message.count, &output, output.count, &length)
        return made != nil && length == output.count ? output : nil
    }

    /// Compares in constant time for values of equal length.
    package static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
