private import CNice

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
                if let address = IPAddress(text), address.isUnicast, !address.isLinkLocal { addresses.append(text) }
                g_free(data)
            }
            item = node.pointee.next
        }
        g_list_free(list)
        return addresses
    }
}
