import NIOCore
import NIOPosix

/// Binds the stand-in's sockets.
struct Listener {
    let group: MultiThreadedEventLoopGroup
    let connections: OpenChannels
    let install: @Sendable (any Channel) throws -> Void

    func listen(host: String?, port: Int) throws -> (port: Int, listeners: [any Channel]) {
        if let host {
            let channel = try bootstrap.bind(host: host, port: port).wait()
            return (channel.localAddress?.port ?? port, [channel])
        }
        let first = try bind("127.0.0.1", port)
        let port = first.localAddress?.port ?? port
        do {
            return (port, [first, try bind("::1", port)])
        } catch let error as IOError where [EADDRNOTAVAIL, EAFNOSUPPORT].contains(error.errnoCode) {
            // The machine has no IPv6.
            return (port, [first])
        } catch {
            try? first.close().wait()
            throw error
        }
    }

    /// Without a lookup: that of "::1" fails with another error while the loopback interface has no IPv6 address yet.
    private func bind(_ address: String, _ port: Int) throws -> any Channel {
        try bootstrap.bind(to: SocketAddress(ipAddress: address, port: port)).wait()
    }

    private var bootstrap: ServerBootstrap {
        let install = install
        let connections = connections
        return ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 128)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            // `ConnectionHandler.write` disconnects a client with more unread output than this.
            .childChannelOption(.writeBufferWaterMark, value: .init(low: 1 << 18, high: 1 << 20))
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard connections.add(channel) else { throw ChannelError.operationUnsupported }
                    try install(channel)
                }
            }
    }
}
