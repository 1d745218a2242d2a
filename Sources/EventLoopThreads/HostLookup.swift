// Lookups of host names, for signalling, STUN and TURN. Each name has a thread of its own, so that a dead name server delays
// no other name and blocks no loop; GLib's resolver would block threads of a pool that it shares with the host application.
private import Glibc
private import Synchronization

package enum LookupFailure: Error, Sendable, Equatable {
    case unknownHost
    /// The name server did not answer.
    case noAnswer
    /// The caller's time is over.
    case timeout
    /// The name has only addresses that the caller does not permit.
    case notPermitted
    /// The process has no thread left, or too many lookups run.
    case noThread
}

package enum HostLookup {
    package typealias Completion = @Sendable (Result<[SocketAddress], LookupFailure>) -> Void

    /// Limits the threads that all callers together leave to a dead name server.
    private static let shared = SharedLookups(maximumThreads: 32, addresses)

    /// Looks a name up; an address literal is its own result.
    /// - Parameter completion: gets at least one address, each with port 0, in the system's order of preference. Called
    ///   on any thread, after as long as the system takes, which can be half a minute.
    package static func resolve(_ host: String, completion: @escaping Completion) {
        if let address = SocketAddress(ip: host, port: 0) { return completion(.success([address])) }
        // The system would look up what stands before the NUL.
        guard !host.utf8.contains(0) else { return completion(.failure(.unknownHost)) }
        shared.start(host, completion)
    }

    /// Blocks as long as the system does.
    @Sendable private static func addresses(of host: String) -> Result<[SocketAddress], LookupFailure> {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_protocol = CInt(IPPROTO_TCP)
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, nil, &hints, &list)
        guard status == 0 else { return .failure(status == EAI_AGAIN ? .noAnswer : .unknownHost) }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            if let address = entry.pointee.ai_addr.flatMap({ SocketAddress(copying: $0) }),
                !addresses.contains(address)
            {
                addresses.append(address)
            }
        }
        return addresses.isEmpty ? .failure(.unknownHost) : .success(addresses)
    }
}

/// Lookups that run, each on a thread of its own: callers that look up the same name share one.
package final class SharedLookups: Sendable {
    private let maximumThreads: Int
    private let addresses: @Sendable (String) -> Result<[SocketAddress], LookupFailure>
    /// The completions that wait for a lookup, by host name.
    private let running = Mutex<[String: [HostLookup.Completion]]>([:])

    /// - Parameter addresses: looks a name up; may block.
    package init(
        maximumThreads: Int, _ addresses: @escaping @Sendable (String) -> Result<[SocketAddress], LookupFailure>
    ) {
        (self.maximumThreads, self.addresses) = (maximumThreads, addresses)
    }

    package func start(_ host: String, _ completion: @escaping HostLookup.Completion) {
        let waiting = running.withLock { running -> Int? in
            guard running[host] != nil || running.count < maximumThreads else { return nil }
            running[host, default: []].append(completion)
            return running[host]?.count
        }
        guard let waiting else { return completion(.failure(.noThread)) }
        guard waiting == 1 else { return }
        if !SerialQueue(label: "decart.lookup").start({ self.finish(host, self.addresses(host)) }) {
            finish(host, .failure(.noThread))
        }
    }

    private func finish(_ host: String, _ result: Result<[SocketAddress], LookupFailure>) {
        for completion in running.withLock({ $0.removeValue(forKey: host) }) ?? [] { completion(result) }
    }
}
