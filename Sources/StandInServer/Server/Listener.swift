import NIOCore
import NIOPosix

/// Binds the stand-in's sockets.
struct Listener {
    let group: MultiThreadedEventLoopGroup
    let connections: OpenChannels
    let install: @Sendable (any Channel) throws -> Void

    func listen(host: String?, port: Int) throws -> (port: Int, listeners: [any Channel]) {
        if let host {
            let channel = try bind(host, port)
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

    private func bind(_ host: String, _ port: Int) throws -> any Channel {
        let install = install
        let connections = connections
        return try ServerBootstrap(group: group)
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
            .bind(host: host, port: port)
            .wait()
    }
}
