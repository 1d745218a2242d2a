import EventLoopThreads
import Glibc
package import NIOCore
import NIOPosix

/// The process's network thread for all control channels. It is not NIO's shared group, which starts a thread per core;
/// loading the plugin must start none. The first channel creates it, and it never stops.
package enum EventLoops {
    package static let group: any EventLoopGroup = {
        let group = MultiThreadedEventLoopGroup.blockingSIGPIPE()
        keepHostsSIGPIPE(group)
        return group
    }()

    /// Restores the host's SIGPIPE disposition. NIO makes the whole process ignore SIGPIPE when it opens its first
    /// socket, and every child process that the host starts inherits that.
    private static func keepHostsSIGPIPE(_ group: MultiThreadedEventLoopGroup) {
        var pair: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else {
            return
        }
        close(pair[1])
        var hosts = sigaction()
        sigaction(SIGPIPE, nil, &hosts)
        // Wrapping any socket makes NIO change the disposition. The wrapper owns and closes the socket.
        let channel = try? ClientBootstrap(group: group).withConnectedSocket(pair[0]).wait()
        channel?.close(promise: nil)
        var former = sigaction()
        sigaction(SIGPIPE, &hosts, &former)
        // A thread of the host may have set another disposition since NIO did: that one stays.
        let handler: (@convention(c) (CInt) -> Void)? = former.__sigaction_handler.sa_handler
        let isIgnored = handler.map { unsafeBitCast($0, to: UInt.self) } == unsafeBitCast(SIG_IGN, to: UInt.self)
        if !isIgnored { sigaction(SIGPIPE, &former, nil) }
    }
}

extension Channel {
    /// Sets FD_CLOEXEC: child processes would otherwise inherit NIO's sockets, and the remote peer would not see this
    /// end close. Call it on the channel's event loop.
    package func keepFromChildren() {
        _ = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            fcntl($0, F_SETFD, FD_CLOEXEC)
        }
    }
}
