// Reports changes of this host's addresses and routes: a netlink route socket on the network thread.
private import CNice
package import EventLoopThreads
private import Synchronization

/// One instance for the process. It opens its socket with the first observer, and closes it with the last.
package final class AddressMonitor: Sendable {
    package static let shared = AddressMonitor(network: .shared)

    /// A change comes as several messages: addresses, links, routes.
    private static let settling = Duration.milliseconds(50)

    private struct Observer: Sendable {
        let endpoint: LocalEndpoint?
        let onChange: @Sendable (Set<String>) -> Void
    }

    private let network: NetworkThread
    private struct State: Sendable {
        var observers: [Int: Observer] = [:]
        var lastNumber = 0
        var descriptor: CInt?
        var timer: NetworkTimer?
    }
    private let state = Mutex(State())

    package init(network: NetworkThread) { self.network = network }

    /// True while its socket is open.
    package var isOpen: Bool { state.withLock { $0.descriptor != nil } }

    /// Ends its observation when it is released.
    package final class Observation: Sendable {
        private let end: @Sendable () -> Void
        fileprivate init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
    }

    /// - Parameters:
    ///   - endpoint: limits the addresses; nil: all of this host.
    ///   - onChange: called on the network thread with the addresses that candidates can have now, after addresses or
    ///     routes have changed.
    package func observe(
        _ endpoint: LocalEndpoint? = nil, _ onChange: @escaping @Sendable (_ addresses: Set<String>) -> Void
    ) -> Observation {
        let number = state.withLock { state in
            state.lastNumber &+= 1
            state.observers[state.lastNumber] = Observer(endpoint: endpoint, onChange: onChange)
            return state.lastNumber
        }
        network.async { [self] in
            guard state.withLock({ $0.descriptor == nil && !$0.observers.isEmpty }) else { return }
            let descriptor = gst_decart_open_route_socket()
            guard descriptor >= 0 else { return }
            let status = network.watch(descriptor, for: .readable) { [weak self] _ in
                if gst_decart_drain_socket(descriptor) != 0 { self?.changed() }
            }
            guard status == 0 else { return gst_decart_close_socket(descriptor) }
            state.withLock { $0.descriptor = descriptor }
        }
        return Observation { [self] in
            // Released outside the lock, because the closure may hold the last reference to its owner.
            let ended = state.withLock { $0.observers.removeValue(forKey: number) }
            withExtendedLifetime(ended) {}
            network.async { [self] in
                let ended = state.withLock { state -> CInt? in
                    guard state.observers.isEmpty else { return nil }
                    state.timer?.cancel()
                    return state.descriptor.take()
                }
                guard let ended else { return }
                network.unwatch(ended)
                gst_decart_close_socket(ended)
            }
        }
    }

    private func changed() {
        let previous = state.withLock { state in
            defer {
                state.timer = network.schedule(after: Self.settling) { [weak self] in self?.notify() }
            }
            return state.timer
        }
        previous?.cancel()
    }

    private func notify() {
        let observers = state.withLock { Array($0.observers.values) }
        guard !observers.isEmpty else { return }
        let addresses = Set(LocalAddresses.all())
        for observer in observers {
            observer.onChange(observer.endpoint.map { Set($0.addresses()) } ?? addresses)
        }
    }
}
