import Dispatch
import NIOCore
import NIOPosix

/// The listening sockets, and the one fault that closes them: `refuse`.
// @unchecked: mutable fields are touched on `queue` only.
final class Listeners: @unchecked Sendable {
    private let queue = DispatchQueue(label: "decart-standin.listeners")
    private let bootstrap: ServerBootstrap
    private let host: String?
    private let log: @Sendable (String) -> Void

    // MARK: State (`queue`)
    private var port: Int
    private var channels: [any Channel] = []
    /// Number of the present plan; timers of an earlier plan do nothing.
    private var plan = 0

    /// - Parameter install: called for each connection that `connections` has room for.
    init(
        _ configuration: StandInConfiguration, _ group: MultiThreadedEventLoopGroup, _ connections: OpenChannels,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) {
        (host, port, log) = (configuration.host, configuration.port, configuration.log)
        bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 128)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            // `WebSocketHandler.write` disconnects a client with more unread output than this.
            .childChannelOption(.writeBufferWaterMark, value: .init(low: 1 << 18, high: 1 << 20))
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard connections.add(channel) else { throw ChannelError.operationUnsupported }
                    try install(channel)
                }
            }
    }

    /// Blocks, like all calls here; must not be called from an event loop.
    func open() throws -> Int {
        try queue.sync {
            try listen()
            return port
        }
    }

    /// TCP port of the service, also while `refuse` keeps it closed.
    var servicePort: Int { queue.sync { port } }

    /// Nil while the port is closed.
    var openPort: Int? { queue.sync { channels.isEmpty ? nil : port } }

    func close() {
        queue.sync {
            plan += 1
            stopListening()
        }
    }

    func apply(_ faults: FaultPlan) {
        queue.sync {
            plan += 1
            guard let fault = faults.first(.refuse) else { return reopen(plan) }
            let start = fault.at ?? 0
            if start > 0 {
                reopen(plan)
                after(start) { $0.stopListening() }
            } else {
                stopListening()
            }
            let plan = plan
            if let duration = fault.for { after(start + duration) { $0.reopen(plan) } }
        }
    }

    private func after(_ seconds: Double, _ body: @escaping @Sendable (Listeners) -> Void) {
        queue.asyncAfter(deadline: .now() + seconds) { [weak self, plan] in
            guard let self, self.plan == plan else { return }
            body(self)
        }
    }

    private func listen() throws {
        guard channels.isEmpty else { return }
        if let host {
            channels = [try bootstrap.bind(host: host, port: port).wait()]
        } else {
            channels = try bindLoopback(attempts: port == 0 ? 10 : 1)
        }
        port = channels[0].localAddress?.port ?? port
    }

    /// - Parameter attempts: The kernel selects a port that is free at 127.0.0.1, but a connection may have it at ::1.
    private func bindLoopback(attempts: Int) throws -> [any Channel] {
        let first = try bind("127.0.0.1", port)
        do {
            return [first, try bind("::1", first.localAddress?.port ?? port)]
        } catch let error as IOError where [EADDRNOTAVAIL, EAFNOSUPPORT].contains(error.errnoCode) {
            // The machine has no IPv6.
            return [first]
        } catch {
            // Close it after the next attempt, which gets another port for that reason.
            defer { try? first.close().wait() }
            guard attempts > 1, (error as? IOError)?.errnoCode == EADDRINUSE else { throw error }
            return try bindLoopback(attempts: attempts - 1)
        }
    }

    /// Without a lookup: that of "::1" fails with another error while the loopback interface has no IPv6 address yet.
    private func bind(_ address: String, _ port: Int) throws -> any Channel {
        try bootstrap.bind(to: SocketAddress(ipAddress: address, port: port)).wait()
    }

    private func stopListening() {
        for channel in channels { try? channel.close().wait() }
        channels = []
    }

    /// Retries until it succeeds: another process may hold the port while it is closed.
    private func reopen(_ plan: Int) {
        guard plan == self.plan else { return }
        do {
            try listen()
        } catch {
            log("cannot listen on port \(port) again yet")
            after(0.1) { $0.reopen(plan) }
        }
    }
}
