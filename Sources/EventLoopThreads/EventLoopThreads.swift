import Glibc
package import NIOPosix

extension MultiThreadedEventLoopGroup {
    /// Creates a group whose only thread blocks SIGPIPE, which the kernel delivers to the thread that writes to a closed
    /// connection. NIO makes the process ignore SIGPIPE once, at its first socket; the disposition that holds later is
    /// that of the host, which may be to end the process. A new thread inherits its creator's mask, so there is no moment
    /// at which the thread could be hit.
    package static func blockingSIGPIPE() -> MultiThreadedEventLoopGroup {
        var pipe = sigset_t()
        sigemptyset(&pipe)
        sigaddset(&pipe, SIGPIPE)
        var creators = sigset_t()
        pthread_sigmask(SIG_BLOCK, &pipe, &creators)
        defer { pthread_sigmask(SIG_SETMASK, &creators, nil) }
        return MultiThreadedEventLoopGroup(numberOfThreads: 1)
    }
}
