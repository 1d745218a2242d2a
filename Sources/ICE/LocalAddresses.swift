private import CNice
private import Glibc

/// The addresses of this host's interfaces that are up, loopback included.
enum LocalAddresses {
    /// Returns address literals for candidates. Link-local addresses are excluded: they mean nothing without a scope.
    static func all() -> [String] {
        var addresses: [String] = []
        let list = nice_interfaces_get_local_ips(1)
        var item = list
        while let node = item {
            if let data = node.pointee.data {
                let text = String(cString: data.assumingMemoryBound(to: CChar.self))
                if isUsable(text) { addresses.append(text) }
                g_free(data)
            }
            item = node.pointee.next
        }
        g_list_free(list)
        return addresses
    }

    /// Returns the addresses of one interface, by the same rules.
    static func of(interface name: String) -> [String] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var addresses: [String] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let label = entry.pointee.ifa_name, String(cString: label) == name,
                entry.pointee.ifa_flags & UInt32(IFF_UP) != 0, let address = entry.pointee.ifa_addr
            else { continue }
            let size: Int
            switch Int32(address.pointee.sa_family) {
            case AF_INET: size = MemoryLayout<sockaddr_in>.size
            case AF_INET6: size = MemoryLayout<sockaddr_in6>.size
            default: continue
            }
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            guard
                getnameinfo(address, socklen_t(size), &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
            else { continue }
            let literal = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if isUsable(literal), !addresses.contains(literal) { addresses.append(literal) }
        }
        return addresses
    }

    private static func isUsable(_ text: String) -> Bool {
        IPAddress(text).map { $0.isUnicast && !$0.isLinkLocal } ?? false
    }
}

/// The one local address, or the interface, that a connection uses.
package enum LocalEndpoint: Sendable, Equatable, CustomStringConvertible {
    /// An address literal; this host may lack the address.
    case address(String)
    /// The name of an interface that exists or may appear later.
    case interface(String)

    /// Returns nil if the text is neither a usable address nor a possible name of an interface. A link-local address is
    /// not usable: it means nothing without a scope.
    package init?(_ text: String) {
        if let address = IPAddress(text) {
            guard address.isUnicast, !address.isLinkLocal else { return nil }
            self = .address(text)
            return
        }
        // IFNAMSIZ is 16 with the final NUL; the kernel forbids "/" and white space, and ":" marks an alias.
        guard (1...15).contains(text.utf8.count), text != ".", text != "..",
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "%") })
        else { return nil }
        self = .interface(text)
    }

    package var description: String {
        switch self {
        case .address(let text), .interface(let text): text
        }
    }

    /// Why there is no address, without the address itself.
    package var absence: String {
        switch self {
        case .address: "the address of local-address is not one of this host's; check it and the interface"
        case .interface(let name): "the interface \(name) of local-address has no usable address; check that it is up"
        }
    }

    /// The literals that a connection may use now; empty while the interface is down or the address is not this host's.
    package func addresses() -> [String] {
        switch self {
        case .interface(let name): return LocalAddresses.of(interface: name)
        case .address(let text):
            let wanted = IPAddress(text)
            return LocalAddresses.all().filter { IPAddress($0) == wanted }
        }
    }
}
