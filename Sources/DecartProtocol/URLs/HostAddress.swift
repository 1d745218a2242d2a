// Parses with inet_pton only and never resolves a name.
#if canImport(Glibc)
    import Glibc
#endif

/// The IPv4 or IPv6 address that a URL names as its host.
struct HostAddress {
    private var bytes: [UInt8]

    init?(_ text: String) {
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = withUnsafeBytes(of: four) { [UInt8]($0) }
            return
        }
        var six = in6_addr()
        guard inet_pton(AF_INET6, text, &six) == 1 else { return nil }
        bytes = withUnsafeBytes(of: six) { [UInt8]($0) }
    }

    var isLoopback: Bool {
        if bytes.count == 4 { return bytes.first == 127 }
        let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127]
        let one = [UInt8](repeating: 0, count: 15) + [1]
        return bytes == one || bytes.starts(with: mapped)
    }

    /// On this machine or on its link: loopback, link-local (RFC 3927, RFC 4291 §2.5.6), or unspecified, which leads to
    /// this machine too.
    var isLocal: Bool {
        let prefix = [UInt8](repeating: 0, count: 10)
        if bytes.count == 4 || bytes.starts(with: prefix + [0xFF, 0xFF]) {
            let four = bytes.suffix(4)
            return four.first == 127 || four.first == 0 || four.starts(with: [169, 254])
        }
        let isLinkLocal = bytes.first == 0xFE && bytes.dropFirst().first.map { $0 & 0xC0 } == 0x80
        return isLoopback || isLinkLocal || bytes.allSatisfy { $0 == 0 }
    }
}
