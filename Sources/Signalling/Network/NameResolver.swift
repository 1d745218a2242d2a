// Name lookup with getaddrinfo. NIO's own resolver runs all lookups of an event loop one after another, so a dead name
// server would delay the next attempt and every other session. Here each name that is looked up has a thread of its own,
// however long it takes, and its caller gets a timeout.
import DecartProtocol
import EventLoopThreads
import Glibc
import NIOCore
import NIOPosix
import Synchronization

struct ResolveError: Error {
    /// `local`: only addresses that `refusesLocal` forbids.
    enum Reason { case unknownHost, noAnswer, timeout, local }

    let reason: Reason
}

extension SocketAddress {
    /// On this machine or on its link.
    var isLocal: Bool { ipAddress.map { HTTPURL.isLocal(host: $0) } ?? false }
}

/// Resolves a single name.
final class NameResolver: Resolver, Sendable {
    private let loop: any EventLoop
    private let limit: TimeAmount
    private let refusesLocal: Bool
    private let v4: EventLoopPromise<[SocketAddress]>
    private let v6: EventLoopPromise<[SocketAddress]>

    init(loop: any EventLoop, limit: TimeAmount, refusesLocal: Bool) {
        self.loop = loop
        self.limit = limit
        self.refusesLocal = refusesLocal
        v4 = loop.makePromise()
        v6 = loop.makePromise()
    }

    // NIO asserts that every promise is completed, and a cancelled connection may never query.
    deinit {
        v4.fail(ResolveError(reason: .noAnswer))
        v6.fail(ResolveError(reason: .noAnswer))
    }

    // One getaddrinfo call resolves both families, in the AAAA query, which NIO makes first.
    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        v4.futureResult
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        let answer = loop.makePromise(of: [SocketAddress].self)
        let timer = loop.scheduleTask(in: limit) { answer.fail(ResolveError(reason: .timeout)) }
        NameResolver.lookUp(host: host, port: port) { [refusesLocal] result in
            answer.completeWith(
                result.flatMap { addresses -> Result<[SocketAddress], any Error> in
                    let allowed = refusesLocal ? addresses.filter { !$0.isLocal } : addresses
                    return allowed.isEmpty ? .failure(ResolveError(reason: .local)) : .success(allowed)
                })
        }
        answer.futureResult.whenComplete { [v4, v6] result in
            timer.cancel()
            switch result {
            case .success(let addresses):
                v6.succeed(addresses.filter { $0.protocol == .inet6 })
                v4.succeed(addresses.filter { $0.protocol == .inet })
            case .failure(let error):
                v6.fail(error)
                v4.fail(error)
            }
        }
        return v6.futureResult
    }

    /// getaddrinfo cannot be cancelled; the promise ignores a late result.
    func cancelQueries() {}

    typealias Completion = @Sendable (Result<[SocketAddress], any Error>) -> Void

    /// The lookups that run, by host and port, and who waits for each: with a dead name server, the attempts of many
    /// sessions take one thread together.
    private static let running = Mutex<[String: [Completion]]>([:])

    /// Looks a host up on another thread, which calls `completion`.
    static func lookUp(host: String, port: Int, completion: @escaping Completion) {
        let name = "\(host):\(port)"
        let isFirst = running.withLock { running in
            running[name, default: []].append(completion)
            return running[name]?.count == 1
        }
        guard isFirst else { return }
        SerialQueue(label: "decart.lookup").async {
            let result = Result { try addresses(host: host, port: port) }
            for completion in running.withLock({ $0.removeValue(forKey: name) }) ?? [] { completion(result) }
        }
    }

    /// Blocks as long as the system does.
    private static func addresses(host: String, port: Int) throws -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_protocol = Int32(IPPROTO_TCP)
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &list)
        guard status == 0 else {
            throw ResolveError(reason: status == EAI_AGAIN ? .noAnswer : .unknownHost)
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            defer { next = entry.pointee.ai_next }
            guard let address = entry.pointee.ai_addr else { continue }
            let raw = UnsafeRawPointer(address)
            switch entry.pointee.ai_family {
            case AF_INET: addresses.append(SocketAddress(raw.loadUnaligned(as: sockaddr_in.self)))
            case AF_INET6: addresses.append(SocketAddress(raw.loadUnaligned(as: sockaddr_in6.self)))
            default: continue
            }
        }
        guard !addresses.isEmpty else { throw ResolveError(reason: .unknownHost) }
        return addresses
    }
}
