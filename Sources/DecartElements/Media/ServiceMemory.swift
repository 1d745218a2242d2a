// Properties of services that one session has found, for later sessions of the process.
import DecartProtocol
import GStreamerKit
import Signalling

enum KnownServices {
    /// Which transport `transport=auto` found, so that it need not be detected again. If a service changes its
    /// transport, the attempt that fails because of it removes the entry.
    static let transports = ServiceMemory<MediaTransportKind>()
    /// The server of the last room: a session connects to it while the control channel is dialled, because the room's URL
    /// comes two round trips later.
    static let rooms = ServiceMemory<ServerPlace>()
}

/// A model at a base URL. The URL's query is redacted because it may hold a secret.
struct ServiceName: Equatable, Sendable {
    var url: String
    var model: String
}

final class ServiceMemory<Value: Sendable>: Sendable {
    /// Number of entries; each further one replaces the oldest.
    private let capacity = 64
    private let entries = StateLock<[(service: ServiceName, value: Value)]>([])

    func value(of service: ServiceName) -> Value? {
        entries.read { $0.last { $0.service == service }?.value }
    }

    /// Stores what is known of a service; nil removes it.
    func set(_ value: Value?, of service: ServiceName) {
        entries.withLock { entries in
            entries.removeAll { $0.service == service }
            guard let value else { return }
            if entries.count >= capacity { entries.removeFirst() }
            entries.append((service, value))
        }
    }

    func forgetAll() { entries.withLock { $0 = [] } }
}
