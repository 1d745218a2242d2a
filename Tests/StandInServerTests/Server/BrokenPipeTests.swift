import EventLoopThreads
import Glibc
import NIOCore
import NIOPosix
import StandInServer
import TestSupport
import Testing

/// The stand-in is a library: the disposition of SIGPIPE is that of its process, which may be to end.
@Suite("SIGPIPE", .serialized, .timeLimit(.minutes(1)))
struct BrokenPipeTests {
    @Test func everyEventLoopBlocksIt() throws {
        try TestServer.run { server in
            _ = try server.greeted()
            let threads = BrokenPipe.eventLoopThreads()
            // The server's and the clients'.
            #expect(threads.blocking.count >= 2)
            #expect(threads.others == [])
        }
    }

    @Test func aWriteOfTheServerToAClosedConnectionDoesNotRaiseIt() throws {
        let group = blockingSIGPIPE { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        defer { try? group.syncShutdownGracefully() }
        var error: CInt = 0
        let signals = try BrokenPipe.signals { error = try group.next().submit { BrokenPipe.write() }.wait() }
        #expect(error == EPIPE)
        #expect(signals == 0)
    }

    @Test func aRawClientDoesNotRaiseIt() throws {
        var listener: LoopbackSocket? = try LoopbackSocket(stream: true)
        let client = try RawSocket(port: Int(listener?.port ?? 0))
        // Resets the connection, which it has not accepted.
        listener = nil
        // The first write after a reset fails with ECONNRESET, and the later ones with EPIPE.
        #expect(BrokenPipe.signals { for _ in 0..<3 { client.send([1]) } } == 0)
        let end = client.read()
        #expect(end == .finished || end == .reset)
    }
}
