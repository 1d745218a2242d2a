import EventLoopThreads
import Glibc
package import NIOCore
import NIOPosix

/// The process's network thread for all control channels. It is not NIO's shared group, which starts a thread per core;
/// loading the plugin must start none. The first channel creates it, and it never stops.
package enum EventLoops {
    package static let group: any EventLoopGroup = {
        let group = blockingSIGPIPE { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        keepingHostsSIGPIPE { openFirstSocket(group) }
        return group
    }()

    /// NIO makes the process ignore SIGPIPE once, when it opens its first socket.
    private static func openFirstSocket(_ group: MultiThreadedEventLoopGroup) {
        var pair: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else {
            return
        }
        close(pair[1])
        // The channel owns and closes the socket.
        let channel = try? ClientBootstrap(group: group).withConnectedSocket(pair[0]).wait()
        channel?.close(promise: nil)
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
