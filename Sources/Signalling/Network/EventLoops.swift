import Glibc
package import NIOCore
import NIOPosix

/// The process's network thread for all control channels. It is not NIO's shared group, which starts a thread per core;
/// loading the plugin must start none. The first channel creates it, and it never stops.
package enum EventLoops {
    package static let group: any EventLoopGroup = {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        keepHostsSIGPIPE(group)
        return group
    }()

    /// Restores the host's SIGPIPE disposition. NIO makes the whole process ignore SIGPIPE when it opens its first
    /// socket, and every child process that the host starts inherits that. Instead, the network thread blocks the
    /// signal, which the kernel delivers to the writing thread.
    private static func keepHostsSIGPIPE(_ group: MultiThreadedEventLoopGroup) {
        var hosts = sigaction()
        guard sigaction(SIGPIPE, nil, &hosts) == 0 else { return }
        // Block the signal first: without the mask, a write could terminate the process as soon as the disposition is
        // restored.
        let isBlocked = try? group.next().submit { () -> Bool in
            var mask = sigset_t()
            sigemptyset(&mask)
            sigaddset(&mask, SIGPIPE)
            return pthread_sigmask(SIG_BLOCK, &mask, nil) == 0
        }.wait()
        guard isBlocked == true else { return }

        var pair: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &pair) == 0 else { return }
        close(pair[1])
        // Wrapping any socket makes NIO change the disposition. The wrapper owns and closes the socket.
        let channel = try? ClientBootstrap(group: group).withConnectedSocket(pair[0]).wait()
        channel?.close(promise: nil)
        sigaction(SIGPIPE, &hosts, nil)
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
