private import CNice
private import Glibc

/// An IP address literal and the properties that decide if it may be contacted.
struct IPAddress: Equatable {
    /// 4 or 16 bytes in network byte order.
    let bytes: [UInt8]

    /// Returns nil for a host name, a scoped address ("fe80::1%eth0") and anything else that is not a plain literal.
    init?(_ text: String) {
        guard text.utf8.count <= 45, !text.utf8.contains(0) else { return nil }
        var parsed = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &parsed) == 1 {
            bytes = Array(parsed.prefix(4))
            return
        }
        guard inet_pton(AF_INET6, text, &parsed) == 1 else { return nil }
        bytes = parsed
    }

    var isIPv6: Bool { bytes.count == 16 }

    var isLoopback: Bool {
        isIPv6 ? bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 : bytes.first == 127
    }

    var isLinkLocal: Bool {
        isIPv6
            ? bytes.starts(with: [0xfe]) && (bytes.dropFirst().first ?? 0) & 0xc0 == 0x80
            : bytes.starts(with: [169, 254])
    }

    /// False for unspecified, multicast, broadcast and IPv4-mapped IPv6 addresses (RFC 8445 §5.1.1.1).
    var isUnicast: Bool {
        guard let first = bytes.first else { return false }
        if isIPv6 {
            let mapped = bytes.starts(with: [UInt8](repeating: 0, count: 10) + [0xff, 0xff])
            return first != 0xff && !mapped && !bytes.allSatisfy { $0 == 0 }
        }
        // 0/8 is "this network", 224/4 is multicast, 240/4 is reserved and includes broadcast.
        return first != 0 && first < 224
    }
}
