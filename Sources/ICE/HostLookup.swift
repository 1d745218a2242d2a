// Resolves server names without blocking the network thread. libnice can resolve names itself, but 0.1.21 then never
// finishes gathering if one does not resolve, and reports that only as a GLib warning. GLib's resolver blocks threads of a
// pool that it shares with the host application.
private import CNice
private import EventLoopThreads
private import Glibc
private import Synchronization

/// The name lookups of one agent. Belongs to the network thread.
// @unchecked: used only on the network thread.
final class HostLookup: @unchecked Sendable {
    /// No candidate follows after it.
    private static let limit = ICEAgentCore.gatheringLimit
    /// Limits the threads that all agents together leave to a dead name server.
    private static let maximumThreads = 32

    private let network: NetworkThread
    private var requests: [Int: (timer: NetworkTimer, answer: ([String]) -> Void)] = [:]
    private var lastNumber = 0

    init(network: NetworkThread) { self.network = network }

    /// Starts a lookup by the system's resolver. `answer` receives the addresses as literals, or an empty list if the
    /// name did not resolve in time; it is not called after `cancel()`.
    func resolve(_ host: String, answer: @escaping ([String]) -> Void) {
        lastNumber &+= 1
        let number = lastNumber
        let timer = network.schedule(after: Self.limit) { [weak self] in self?.finish(number, []) }
        requests[number] = (timer, answer)
        Self.lookUp(host) { [weak self, network] addresses in
            network.async { [weak self] in self?.finish(number, addresses) }
        }
    }

    func cancel() {
        for request in requests.values { request.timer.cancel() }
        requests = [:]
    }

    private func finish(_ number: Int, _ addresses: [String]) {
        guard let request = requests.removeValue(forKey: number) else { return }
        request.timer.cancel()
        request.answer(addresses)
    }

    private typealias Completion = @Sendable ([String]) -> Void

    /// The lookups that run, by name, and who waits for each: agents that look up the same name take one thread.
    private static let running = Mutex<[String: [Completion]]>([:])

    private static func lookUp(_ host: String, completion: @escaping Completion) {
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
