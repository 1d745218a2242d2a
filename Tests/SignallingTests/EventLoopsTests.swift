import Glibc
import NIOCore
import Signalling
import Testing

@Suite("The network thread", .timeLimit(.minutes(1)))
struct EventLoopsTests {
    @Test func thereIsOneAndItCannotBeHitBySIGPIPE() throws {
        #expect(EventLoops.group.makeIterator().reduce(0) { count, _ in count + 1 } == 1)
        let isBlocked = try EventLoops.group.next().submit { () -> Bool in
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            return sigismember(&mask, SIGPIPE) == 1
        }.wait()
        #expect(isBlocked)
    }

    @Test func childrenOfTheHostInheritNoConnection() async throws {
        try await withServer { server in
            let client = try Client(port: server.port)
            let events = client.open()
            let first = await events.next()
            let connections = (0..<4096).map(CInt.init).filter { Self.farPort(of: $0) == server.port }
            #expect(!connections.isEmpty, "\(String(describing: first))")
            #expect(connections.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
            client.channel.close()
        }
    }

    /// Remote port; nil if the descriptor is no connected IPv4 socket.
    private static func farPort(of descriptor: CInt) -> Int? {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &size) }
        }
        guard status == 0, address.sin_family == sa_family_t(AF_INET) else { return nil }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
