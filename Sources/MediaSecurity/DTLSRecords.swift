// Parses DTLS record headers (RFC 6347 §4.1), to keep implausible input from OpenSSL and to send whole records only: a
// memory BIO joins the datagrams that OpenSSL writes.

enum DTLSRecords {
    static let headerLength = 13
    static let handshakeHeaderLength = 12
    /// No handshake message is longer than the largest accepted certificate chain.
    static let maximumMessageLength = 32 * 1_024
    /// RFC 6347 §4.1 with RFC 5246 §6.2.3: 2^14 bytes plus the expansion by encryption.
    static let maximumLength = 16_384 + 2_048
    /// Overhead of a TLS 1.2 AES-GCM record: explicit nonce and tag (RFC 5288 §3).
    static let minimumProtectedLength = 8 + 16

    /// True if `datagram` consists of whole records that a DTLS 1.2 peer without renegotiation may send.
    ///
    /// Protects OpenSSL from records of future epochs (CVE-2026-54874) and from protected records that are too short
    /// (CVE-2026-75806).
    static func isPlausible(_ datagram: UnsafeRawBufferPointer) -> Bool {
        guard datagram.count >= headerLength else { return false }
        var offset = 0
        while offset < datagram.count {
            guard datagram.count - offset >= headerLength else { return false }
            let type = datagram[offset]
            // change_cipher_spec is 20, alert 21, handshake 22, application_data 23.
            guard (20...23).contains(type) else { return false }
            // The first flight uses 0xfeff (DTLS 1.0) in its record headers.
            guard datagram[offset + 1] == 0xfe, datagram[offset + 2] == 0xff || datagram[offset + 2] == 0xfd else {
                return false
            }
            let epoch = Int(datagram[offset + 3]) << 8 | Int(datagram[offset + 4])
            let length = Int(datagram[offset + 11]) << 8 | Int(datagram[offset + 12])
            guard epoch <= 1, length > 0, length <= maximumLength,
                length <= datagram.count - offset - headerLength
            else { return false }
            if epoch == 1 {
                guard length >= minimumProtectedLength else { return false }
            } else {
                guard type != 23 else { return false }
                let body = UnsafeRawBufferPointer(rebasing: datagram[(offset + headerLength)...].prefix(length))
                if type == 22, !isPlausibleHandshake(body) { return false }
            }
            offset += headerLength + length
        }
        return true
    }

    /// True if a plaintext handshake record holds whole fragments that are possible in our handshakes (RFC 6347
    /// §4.2.2). Rejects empty fragments of non-empty messages, which only consume CPU time (CVE-2022-29190).
    private static func isPlausibleHandshake(_ record: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset < record.count {
            guard record.count - offset >= handshakeHeaderLength else { return false }
            let total = uint24(record, offset + 1)
            let sequence = Int(record[offset + 4]) << 8 | Int(record[offset + 5])
            let start = uint24(record, offset + 6)
            let length = uint24(record, offset + 9)
            guard total <= maximumMessageLength, sequence < 64, length > 0 || total == 0,
                start + length <= total, length <= record.count - offset - handshakeHeaderLength
            else { return false }
            offset += handshakeHeaderLength + length
        }
        return true
    }

    private static func uint24(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        Int(bytes[offset]) << 16 | Int(bytes[offset + 1]) << 8 | Int(bytes[offset + 2])
    }

    /// The length of the first record with its header; nil if it is incomplete.
    static func firstLength(_ datagram: UnsafeRawBufferPointer) -> Int? {
        guard datagram.count >= headerLength else { return nil }
        let length = headerLength + (Int(datagram[11]) << 8 | Int(datagram[12]))
        return length <= datagram.count ? length : nil
    }

    /// True if the first record is a protected one (epoch 1).
    static func beginsProtected(_ datagram: UnsafeRawBufferPointer) -> Bool {
        datagram.count >= headerLength && datagram[4] == 1
    }

    /// Splits `stream`, a sequence of whole records, into datagrams of at most `limit` bytes.
    ///
    /// A longer record would get a datagram of its own, but OpenSSL's MTU prevents that. Trailing bytes that are not a
    /// whole record are dropped.
    static func split(_ stream: [UInt8], limit: Int) -> [[UInt8]] {
        var datagrams: [[UInt8]] = []
        var start = 0
        var offset = 0
        while stream.count - offset >= headerLength {
            let length = headerLength + (Int(stream[offset + 11]) << 8 | Int(stream[offset + 12]))
            guard length <= stream.count - offset else { break }
            if offset > start, offset - start + length > limit {
                datagrams.append(Array(stream[start..<offset]))
                start = offset
            }
            offset += length
        }
        if offset > start { datagrams.append(Array(stream[start..<offset])) }
        return datagrams
    }
}
