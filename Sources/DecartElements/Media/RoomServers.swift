// The server of the last room of each service, for the next session of the process: it connects to it while the control
// channel is dialled, because the room's URL comes two round trips later.
import DecartProtocol
import Signalling
import Synchronization

final class RoomServers: Sendable {
    static let shared = RoomServers()
    private let entries = Mutex<[(service: TransportCache.Service, place: ServerPlace)]>([])

    func place(of service: TransportCache.Service) -> ServerPlace? {
        entries.withLock { $0.last { $0.service == service }?.place }
    }

    func set(_ place: ServerPlace, of service: TransportCache.Service) {
        entries.withLock { entries in
            entries.removeAll { $0.service == service }
            if entries.count >= TransportCache.capacity { entries.removeFirst() }
            entries.append((service, place))
        }
    }
}
