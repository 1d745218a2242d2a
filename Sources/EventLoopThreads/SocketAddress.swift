package import Glibc

/// An IP address and a port.
package struct SocketAddress: Hashable, Sendable {
    /// A `sockaddr_in` or `sockaddr_in6`.
    private var bytes: [UInt8]

    /// - Parameter ip: an address literal; IPv6 without brackets and without a scope.
    package init?(ip: String, port: Int) {
        guard let port = UInt16(exactly: port), !ip.utf8.contains(0) else { return nil }
        var (v4, v6) = (sockaddr_in(), sockaddr_in6())
        if inet_pton(AF_INET, ip, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            bytes = withUnsafeBytes(of: v4) { Array($0) }
        } else if inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1 {
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            bytes = withUnsafeBytes(of: v6) { Array($0) }
        } else {
            return nil
        }
    }

    /// Copies a system's address; nil if it is not one of IP.
    package init?(copying address: UnsafePointer<sockaddr>) {
        let size: Int
        switch CInt(address.pointee.sa_family) {
        case AF_INET: size = MemoryLayout<sockaddr_in>.size
        case AF_INET6: size = MemoryLayout<sockaddr_in6>.size
        default: return nil
        }
        bytes = Array(UnsafeRawBufferPointer(start: address, count: size))
    }

    /// The address that a call such as `getsockname` or `accept` writes; nil if the call fails.
    package init?(reading call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt) {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let copy = withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                call(address, &size) >= 0 ? SocketAddress(copying: address) : nil
            }
        }
        guard let copy else { return nil }
        self = copy
    }

    package var family: CInt { bytes.count == MemoryLayout<sockaddr_in>.size ? AF_INET : AF_INET6 }

    package var isIPv6: Bool { family == AF_INET6 }

    package var port: Int {
        // Both kinds have it behind the family.
        Int(bytes[2]) << 8 | Int(bytes[3])
    }

    /// The same address with another port.
    package func with(port: UInt16) -> SocketAddress {
        var other = self
        (other.bytes[2], other.bytes[3]) = (UInt8(port >> 8), UInt8(port & 0xFF))
        return other
    }

    /// The address as a literal without the port.
    package var ip: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let offset = isIPv6 ? 8 : 4
        let isWritten = bytes.withUnsafeBytes { raw in
            raw.baseAddress.map { inet_ntop(family, $0 + offset, &text, socklen_t(text.count)) != nil } ?? false
        }
        guard isWritten else { return "" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Lends the address to a system call.
    package func withSocketAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        // Copied, because an array's storage need not be aligned.
        var storage = sockaddr_storage()
        withUnsafeMutableBytes(of: &storage) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(bytes.count)) }
        }
    }
}
