/// Invalid DTLS datagrams (RFC 6347 §4.1, §4.2.2).
enum HostileRecords {
    private static func record(
        _ type: UInt8, epoch: UInt8, sequence: UInt8, version: [UInt8], _ body: [UInt8]
    ) -> [UInt8] {
        [type] + version + [0, epoch, 0, 0, 0, 0, 0, sequence, UInt8(body.count >> 8 & 255), UInt8(body.count & 255)]
            + body
    }

    private static let dtls10: [UInt8] = [0xfe, 0xff]
    private static let dtls12: [UInt8] = [0xfe, 0xfd]

    static let all: [[UInt8]] = [
        // Epochs that have not begun.
        record(22, epoch: 1, sequence: 7, version: dtls12, [UInt8](repeating: 0x55, count: 64)),
        record(23, epoch: 9, sequence: 1, version: dtls12, [0]),
        // A handshake message of 16 MiB in empty fragments.
        record(22, epoch: 0, sequence: 3, version: dtls12, [1, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
        // A fragment beyond the end of its message.
        record(22, epoch: 0, sequence: 4, version: dtls12, [2, 0, 0, 4, 0, 0, 0, 0, 9, 0, 0, 4, 1, 2, 3, 4]),
        // Empty, truncated, and with bytes after the record's length.
        record(22, epoch: 0, sequence: 5, version: dtls12, []),
        [22, 0xfe, 0xfd, 0, 0, 0, 0],
        record(21, epoch: 0, sequence: 6, version: dtls12, [1]) + [0, 0, 0],
        // An unknown record type and an unknown version.
        record(63, epoch: 0, sequence: 8, version: [0, 0], [UInt8](repeating: 0xaa, count: 32)),
    ]

    /// The ClientHello of a client that knows only DTLS 1.0 and its cipher suites.
    static let oldClientHello: [UInt8] = {
        let random = (0..<32).map { UInt8($0 &* 7) }
        let suites: [UInt8] = [0xc0, 0x14, 0xc0, 0x13, 0xc0, 0x0a, 0xc0, 0x09, 0x00, 0x35, 0x00, 0x2f]
        var body = dtls10 + random
        body += [0, 0, 0, UInt8(suites.count)]
        body += suites + [1, 0]
        let length = [0, 0, UInt8(body.count)]
        let head: [UInt8] = [1] + length + [0, 0, 0, 0, 0]
        return record(22, epoch: 0, sequence: 0, version: dtls10, head + length + body)
    }()
}
