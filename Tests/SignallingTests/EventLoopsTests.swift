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
}
