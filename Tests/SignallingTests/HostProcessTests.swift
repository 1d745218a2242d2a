import DecartSession
import EventLoopThreads
import Glibc
import Signalling
import TestSupport
import Testing

// Serialized: a test replaces the process's handler of SIGPIPE.
@Suite("What channels leave to the host process", .serialized, .timeLimit(.minutes(1)))
struct HostProcessTests {
    @Test func allChannelsHaveOneThread() async throws {
        try await withServer { server in
            let places = EventQueue<Bool>()
            let url = try Client.url(port: server.port)
            let channels = (0..<4).map { _ in
                WebSocketChannel(url: url) { _ in places.yield(NetworkThread.shared.isCurrent) }
            }
            for channel in channels { channel.open(timeout: .seconds(50)) }
            for _ in channels { #expect(await places.next() == true) }
            for channel in channels { channel.close() }
        }
    }

    /// The disposition is the host's: it may be to end the process.
    @Test func aWriteToAClosedConnectionRaisesNoSIGPIPE() {
        for thread in [NetworkThread.shared, NetworkThread(name: "test")] {
            var error: CInt = 0
            let signals = BrokenPipe.signals { error = thread.sync { BrokenPipe.write() } }
            #expect(error == EPIPE)
            #expect(signals == 0)
        }
        // This thread takes the signal: the handler works.
        #expect(BrokenPipe.signals { _ = BrokenPipe.write() } == 1)
    }

    @Test func theDispositionOfSIGPIPEStays() async throws {
        func disposition() -> UInt {
            var action = sigaction()
            sigaction(SIGPIPE, nil, &action)
            return unsafeBitCast(action.__sigaction_handler, to: UInt.self)
        }
        let former = disposition()
        try await withChannel { _, channel, events in
            channel.send([65])
            #expect(await events.next() == .text([65]))
        }
        #expect(disposition() == former)
    }

    @Test func everyThreadOfTheProcessBlocksSIGPIPE() async throws {
        try await withChannel(host: "localhost") { _, _, _ in
            let threads = BrokenPipe.eventLoopThreads()
            #expect(threads.blocking.contains("decart-net"))
            #expect(threads.others == [])
        }
    }

    @Test func childrenOfTheHostInheritNoConnection() async throws {
        try await withChannel { server, _, _ in
            let connections = (0..<4096).map(CInt.init).filter { descriptor in
                SocketAddress { getpeername(descriptor, $0, $1) }?.port == server.port
            }
            #expect(!connections.isEmpty)
            #expect(connections.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
        }
    }
}
