import Dispatch
import NIOCore
import Synchronization

/// The accepted connections, upgraded or not: limits their number and closes them all.
final class OpenChannels: Sendable {
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    func add(_ channel: any Channel) -> Bool {
        let id = ObjectIdentifier(channel)
        let isAdded = channels.withLock { channels in
            guard channels.count < limit else { return false }
            channels[id] = channel
            return true
        }
        if isAdded {
            channel.closeFuture.whenComplete { _ in
                self.channels.withLock { _ = $0.removeValue(forKey: id) }
            }
        }
        return isAdded
    }

    /// Notifies all connections of the shutdown, so that sessions end in order; closes those still open after `time`.
    func closeAll(within time: DispatchTimeInterval) {
        let open = channels.withLock { Array($0.values) }
        let group = DispatchGroup()
        for channel in open {
            group.enter()
            channel.closeFuture.whenComplete { _ in group.leave() }
            channel.pipeline.fireUserInboundEventTriggered(ShutdownNotice())
        }
        guard group.wait(timeout: .now() + time) == .timedOut else { return }
        for channel in open { channel.close(promise: nil) }
        _ = group.wait(timeout: .now() + time)
    }

    func notify(_ event: any Sendable) {
        for channel in channels.withLock({ Array($0.values) }) {
            channel.pipeline.fireUserInboundEventTriggered(event)
        }
    }

    /// Calls `body` with every connection, upgraded or not, on its event loop.
    func forEach(_ body: @escaping @Sendable (any Channel) -> Void) {
        for channel in channels.withLock({ Array($0.values) }) {
            channel.eventLoop.execute { body(channel) }
        }
    }
}
