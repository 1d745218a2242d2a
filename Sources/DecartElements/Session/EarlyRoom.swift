import Signalling
import Synchronization
import WebRTCTransport

/// Prepares the room of one attempt while the control channel is dialled.
final class EarlyRoom: Sendable {
    private let prepared = Mutex(RoomHeadStart())

    deinit { take().close() }

    /// Call when a control channel is made that may name a room.
    func open(_ plan: SessionPlan) {
        let servers = plan.room.servers
        let connection = KnownServices.rooms.value(of: plan.service).map {
            EarlyConnection(to: $0, trust: servers.trust, route: servers.route, refusesLocal: servers.refusesLocal)
        }
        let next = RoomHeadStart(connection: connection, gathering: EarlyGathering(plan.room.connection))
        replace(with: next).close()
        connection?.open()
    }

    func take() -> RoomHeadStart { replace(with: RoomHeadStart()) }

    private func replace(with next: RoomHeadStart) -> RoomHeadStart { prepared.withLock { exchange(&$0, with: next) } }
}
