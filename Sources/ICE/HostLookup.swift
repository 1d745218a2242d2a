// Resolves server names without blocking the network thread. libnice can resolve names itself, but 0.1.21 then never
// finishes gathering if one does not resolve, and reports that only as a GLib warning. GLib's resolver blocks threads of a
// pool that it shares with the host application.
private import CNice
private import EventLoopThreads
private import Glibc
private import Synchronization

/// Lookups by the system's resolver.
enum HostLookup {
    /// Limits the threads that all agents together leave to a dead name server.
    private static let maximumThreads = 32

    /// The lookups that run, by name, and who waits for each: agents that look up the same name take one thread.
    private static let running = Mutex<[String: [@Sendable ([String]) -> Void]]>([:])

    /// Calls `completion` on any thread with the addresses as literals; none if the name does not resolve.
    static func resolve(_ host: String, completion: @escaping @Sendable (_ addresses: [String]) -> Void) {
        let waiting = running.withLock { running -> Int? in
            guard running[host] != nil || running.count < maximumThreads else { return nil }
            running[host, default: []].append(completion)
            return running[host]?.count
        }
        guard let waiting else { return completion([]) }
        guard waiting == 1 else { return }
        SerialQueue(label: "decart.lookup").async {
            let found = addresses(of: host)
            for completion in running.withLock({ $0.removeValue(forKey: host) }) ?? [] { completion(found) }
        }
    }

    /// Blocks as long as the system does.
    private static func addresses(of host: String) -> [String] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
        defer { freeaddrinfo(list) }
        var addresses: [String] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            if let address = entry.pointee.ai_addr, let text = LocalAddresses.literal(of: address) {
                addresses.append(text)
            }
        }
        return addresses
    }
}
