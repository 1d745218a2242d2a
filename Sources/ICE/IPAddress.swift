private import CNice
private import Glibc

/// An address literal, and the questions that decide whether it may be spoken to.
struct IPAddress: Equatable {
    /// 4 or 16 bytes, network order.
    let bytes: [UInt8]

    /// `nil` for a host name, a scoped address ("fe80::1%eth0") and anything else that is no plain literal.
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

    /// Neither "any", nor multicast or broadcast, nor IPv4 in IPv6 clothes (RFC 8445 §5.1.1.1).
    var isUnicast: Bool {
        guard let first = bytes.first else { return false }
        if isIPv6 {
            let mapped = bytes.starts(with: [UInt8](repeating: 0, count: 10) + [0xff, 0xff])
            return first != 0xff && !mapped && !bytes.allSatisfy { $0 == 0 }
        }
        // 0/8 is "this network", 224/4 multicast, 240/4 reserved together with broadcast.
        return first != 0 && first < 224
    }
}
