import EventLoopThreads
import Glibc
import Testing

@Suite struct SocketAddressTests {
    @Test(arguments: [
        ("127.0.0.1", false, "127.0.0.1"), ("0.0.0.0", false, "0.0.0.0"), ("255.255.255.255", false, "255.255.255.255"),
        ("::", true, "::"), ("::1", true, "::1"), ("2001:DB8:0:0:0:0:0:1", true, "2001:db8::1"),
        ("::ffff:192.0.2.1", true, "::ffff:192.0.2.1"),
    ]) func literals(text: String, isIPv6: Bool, ip: String) throws {
        let address = try #require(SocketAddress(ip: text, port: 8443))
        #expect(address.ip == ip && address.port == 8443 && address.isIPv6 == isIPv6)
        #expect(address.family == (isIPv6 ? AF_INET6 : AF_INET))
        let other = address.with(port: 65535)
        #expect(other.port == 65535 && other.ip == ip && other != address)
        #expect(other.with(port: 8443) == address)
        // What the system gets is what it returns.
        #expect(address.withSocketAddress { raw, _ in SocketAddress(copying: raw) } == address)
        #expect(
            address.withSocketAddress { _, size in Int(size) }
                == (isIPv6 ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sockaddr_in>.size))
    }

    @Test(arguments: [
        "", "localhost", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4 ", "[::1]", "::1%lo", "fe80::1%eth0", ":::",
        "127.0.0.1\u{0}", "\u{0}", "127.0.0.1\u{0}.example",
    ]) func noLiterals(text: String) { #expect(SocketAddress(ip: text, port: 1) == nil) }

    @Test(arguments: [-1, 65536, .max, .min]) func noPorts(port: Int) {
        #expect(SocketAddress(ip: "127.0.0.1", port: port) == nil)
    }

    /// A link-local address is one of an interface.
    @Test func theScopeStays() throws {
        var raw = sockaddr_in6()
        raw.sin6_family = sa_family_t(AF_INET6)
        raw.sin6_scope_id = 7
        inet_pton(AF_INET6, "fe80::1", &raw.sin6_addr)
        let address = try #require(
            withUnsafePointer(to: &raw) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { SocketAddress(copying: $0) }
            })
        let scope = address.with(port: 9).withSocketAddress { pointer, _ in
            pointer.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_scope_id }
        }
        #expect(scope == 7 && address.ip == "fe80::1")
    }

    @Test func otherFamiliesAreNone() {
        var raw = sockaddr()
        raw.sa_family = sa_family_t(AF_UNIX)
        #expect(SocketAddress(copying: &raw) == nil)
        #expect(SocketAddress { getsockname(-1, $0, $1) } == nil)
    }
}
