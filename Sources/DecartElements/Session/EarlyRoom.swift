import Signalling
import Synchronization

/// The connection of one session to the server of the last room.
final class EarlyRoom: Sendable {
    private let connection = Mutex<EarlyConnection?>(nil)

    /// Call when a control channel is made that may name a room.
    func open(_ plan: SessionPlan) {
        let servers = plan.room.servers
        let next = RoomServers.shared.place(of: plan.service).map {
            EarlyConnection(to: $0, trust: servers.trust, route: servers.route, refusesLocal: servers.refusesLocal)
        }
        connection.withLock { exchange(&$0, with: next) }?.close()
        next?.open()
    }

    func take() -> EarlyConnection? { connection.withLock { exchange(&$0, with: nil) } }
}
