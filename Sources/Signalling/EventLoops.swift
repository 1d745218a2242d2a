import Glibc
package import NIOCore
import NIOPosix

/// The one network thread of all control channels of the process. Not NIO's own shared group: that one starts a thread
/// per core, and loading the plugin must start none. Made by the first channel, never stopped.
package enum EventLoops {
    package static let group: any EventLoopGroup = {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        keepHostsSIGPIPE(group)
        return group
    }()

    /// NIO makes the whole process ignore SIGPIPE when it opens its first socket, and so does every child that the host
    /// starts from then on. That is the host's affair: its setting is put back, and the signal, which goes to the
    /// thread that writes, is blocked on the network thread instead.
    private static func keepHostsSIGPIPE(_ group: MultiThreadedEventLoopGroup) {
        var hosts = sigaction()
        guard sigaction(SIGPIPE, nil, &hosts) == 0 else { return }
        // Not before the mask is set: in between, a write could end the process.
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
        // Wrapping a socket, any socket, is what sets it off; the wrapper owns and closes it.
        let channel = try? ClientBootstrap(group: group).withConnectedSocket(pair[0]).wait()
        channel?.close(promise: nil)
        sigaction(SIGPIPE, &hosts, nil)
    }
}

extension Channel {
    /// NIO's sockets live on in every child that the host starts: the far side would not see this end close. On the
    /// channel's loop.
    package func keepFromChildren() {
        _ = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            fcntl($0, F_SETFD, FD_CLOEXEC)
        }
    }
}
