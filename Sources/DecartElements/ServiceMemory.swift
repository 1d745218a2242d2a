// What `transport=auto` found out about services, for the sessions to come: as long as the process lives, and without
// asking twice. A service that no longer speaks what it spoke is forgotten by the attempt that fails by it.
import DecartProtocol
import Synchronization

final class ServiceMemory: Sendable {
    static let shared = ServiceMemory()

    /// A base URL without its query, which may hold a secret, and a model.
    struct Service: Equatable, Sendable {
        var url: String
        var model: String
    }

    /// Beyond it the oldest is forgotten.
    static let capacity = 64

    private struct Entry {
        let service: Service
        let transport: TransportGeneration
    }
    private let entries = Mutex<[Entry]>([])

    func transport(of service: Service) -> TransportGeneration? {
        entries.withLock { $0.last { $0.service == service }?.transport }
    }

    /// Nil: forget it.
    func set(_ transport: TransportGeneration?, of service: Service) {
        entries.withLock { entries in
            entries.removeAll { $0.service == service }
            guard let transport else { return }
            if entries.count >= Self.capacity { entries.removeFirst() }
            entries.append(Entry(service: service, transport: transport))
        }
    }

    func forgetAll() { entries.withLock { $0 = [] } }
}
