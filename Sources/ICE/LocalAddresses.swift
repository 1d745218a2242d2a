private import CNice
private import EventLoopThreads
private import Glibc

/// The addresses of this host's interfaces that are up, loopback included.
enum LocalAddresses {
    /// Returns address literals for candidates. Link-local addresses are excluded: they mean nothing without a scope.
    static func all() -> [String] { known().filter(isUsable) }

    /// Returns the addresses of one interface, by the same rules.
    static func of(interface name: String) -> [String] {
        var addresses: [String] = []
        for entry in interfaces() where entry.name == name && isUsable(entry.address) {
            if !addresses.contains(entry.address) { addresses.append(entry.address) }
        }
        return addresses
    }

    /// Returns those of the addresses that an agent can have now.
    static func selection(of addresses: [String]) -> AddressSelection {
        AddressSelection(of: addresses, preferred: ofDefaultRoutes(), known: known())
    }

    /// All addresses in the order in which libnice ranks them, link-local ones with their scope.
    private static func known() -> [String] {
        var addresses: [String] = []
        let list = AddressRanking.all(includesLoopback: 1)?.assumingMemoryBound(to: GList.self)
        var item = list
        while let node = item {
            if let data = node.pointee.data {
                addresses.append(String(cString: data.assumingMemoryBound(to: CChar.self)))
                g_free(data)
            }
            item = node.pointee.next
        }
        g_list_free(list)
        return addresses
    }

    /// The addresses of the interfaces that the default routes use.
    private static func ofDefaultRoutes() -> Set<String> {
        // Any global addresses do; these are of a root name server, and nothing is sent to them.
        let sources = ["198.41.0.4", "2001:503:ba3e::2:30"].compactMap { source(towards: $0) }
        let interfaces = interfaces()
        let names = Set(interfaces.filter { sources.contains($0.address) }.map(\.name))
        return Set(interfaces.filter { names.contains($0.name) }.map(\.address))
    }

    static func source(towards remote: String) -> String? {
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        guard gst_decart_source_address(remote, &text) != 0 else { return nil }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func interfaces() -> [(name: String, address: String)] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var interfaces: [(name: String, address: String)] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let name = entry.pointee.ifa_name, entry.pointee.ifa_flags & UInt32(IFF_UP) != 0,
                let address = entry.pointee.ifa_addr.flatMap({ SocketAddress(copying: $0) })
            else { continue }
            interfaces.append((String(cString: name), address.ip))
        }
        return interfaces
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
        // A mistyped address rather than a name.
        guard !text.contains(".") || text.contains(where: { $0 != "." && !("0"..."9").contains($0) }) else {
            return nil
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
