// Remembers which transport `transport=auto` found for each service, so that later sessions of the process need not
// detect it again. If a service changes its transport, the attempt that fails because of it removes the entry.
import DecartProtocol
import Synchronization

final class TransportCache: Sendable {
    static let shared = TransportCache()

    /// A model at a base URL. The URL's query is redacted because it may hold a secret.
    struct Service: Equatable, Sendable {
        var url: String
        var model: String
    }

    /// Number of entries; each further one replaces the oldest.
    static let capacity = 64

    private let entries = Mutex<[(service: Service, transport: MediaTransportKind)]>([])

    func transport(of service: Service) -> MediaTransportKind? {
        entries.withLock { $0.last { $0.service == service }?.transport }
    }

    /// Stores a service's transport; nil removes it.
    func set(_ transport: MediaTransportKind?, of service: Service) {
        entries.withLock { entries in
            entries.removeAll { $0.service == service }
            guard let transport else { return }
            if entries.count >= Self.capacity { entries.removeFirst() }
            entries.append((service, transport))
        }
    }

    func forgetAll() { entries.withLock { $0 = [] } }
}
