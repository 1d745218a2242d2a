import EventLoopThreads
import Glibc
import NIOCore
import NIOPosix
import Signalling
import TestSupport
import Testing

// Serialized: a test replaces the process's handler of SIGPIPE.
@Suite("The network thread", .serialized, .timeLimit(.minutes(1)))
struct EventLoopsTests {
    @Test func thereIsOne() {
        #expect(EventLoops.group.makeIterator().reduce(0) { count, _ in count + 1 } == 1)
    }

    /// The disposition is the host's: it may be to end the process.
    @Test func aWriteToAClosedConnectionRaisesNoSIGPIPE() throws {
        let other = blockingSIGPIPE { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        defer { try? other.syncShutdownGracefully() }
        for loop in [EventLoops.group.next(), other.next()] {
            var error: CInt = 0
            let signals = try BrokenPipe.signals { error = try loop.submit { BrokenPipe.write() }.wait() }
            #expect(error == EPIPE)
            #expect(signals == 0)
        }
        // This thread takes the signal: the handler works.
        #expect(BrokenPipe.signals { _ = BrokenPipe.write() } == 1)
    }

    @Test func everyEventLoopOfTheProcessBlocksSIGPIPE() async throws {
        try await withChannel { _, _, _ in
            let threads = BrokenPipe.eventLoopThreads()
            // The client's and the server's.
            #expect(threads.blocking.count >= 2)
            #expect(threads.others == [])
        }
    }

    @Test func childrenOfTheHostInheritNoConnection() async throws {
        try await withChannel { server, _, _ in
            let connections = (0..<4096).map(CInt.init).filter { Self.farPort(of: $0) == server.port }
            #expect(!connections.isEmpty)
            #expect(connections.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
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
