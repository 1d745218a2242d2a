// Gathers candidates for a connection that does not exist yet, whose offer shall hold them: the sockets are open and STUN
// servers have answered when it is made. Its first offer takes the agent; otherwise it closes by itself.
package import EventLoopThreads
import ICE
import Synchronization

// @unchecked: `use` is locked; the rest is constant, or used on the network thread only.
package final class EarlyGathering: @unchecked Sendable {
    private enum Use { case waiting, taken, over }

    /// Longer than a service takes to name a room. Addresses change, and routers forget a mapping without traffic.
    package static let lifetime = Duration.seconds(10)

    /// The connection must have the same one.
    package let place: NetworkThreads.Place
    let agent: ICEAgent
    private let events: Events
    private let use = Mutex(Use.waiting)

    /// - Parameter configuration: that of the connection; its servers are those that are known so far.
    /// - Returns: nil if there is nothing to gather ahead.
    package init?(_ configuration: PeerConnectionConfiguration) {
        // Candidates that are no relays may not be shown, and of a range of ports the connection needs each one.
        guard configuration.iceTransportPolicy == .all, configuration.network.ports == nil else { return nil }
        place = NetworkThreads.shared.assign()
        guard place.thread.start() else { return nil }
        let events = Events()
        self.events = events
        do {
            agent = try ICEAgent(
                configuration: configuration.ice(isControlling: true), network: place.thread,
                onEvent: { events.put($0) }, onDatagram: { events.onDatagram($0) },
                onBatchEnd: { events.onBatchEnd() })
        } catch { return nil }
        agent.gatherCandidates(awaitsServers: true)
        place.thread.schedule(after: Self.lifetime) { [weak self] in self?.close() }
    }

    package var usernameFragment: String { agent.localUsernameFragment }

    /// Any thread.
    /// - Returns: false if the agent is in use already, or closed.
    func take() -> Bool {
        use.withLock { use in
            guard use == .waiting else { return false }
            use = .taken
            return true
        }
    }

    /// Any thread. Without effect once a connection has taken the agent.
    package func close() {
        let ends = use.withLock { use in
            guard use == .waiting else { return false }
            use = .over
            return true
        }
        if ends { agent.close() }
    }

    /// Delivers to the new owner, beginning with what has happened. Network thread.
    func deliver(
        onEvent: @escaping (ICEEvent) -> Void, onDatagram: @escaping (UnsafeMutableRawBufferPointer) -> Void,
        onBatchEnd: @escaping () -> Void
    ) {
        (events.onDatagram, events.onBatchEnd) = (onDatagram, onBatchEnd)
        events.deliver(onEvent)
    }

    // @unchecked: network thread only.
    private final class Events: @unchecked Sendable {
        private var waiting: [ICEEvent] = []
        private var onEvent: ((ICEEvent) -> Void)?
        var onDatagram: (UnsafeMutableRawBufferPointer) -> Void = { _ in }
        var onBatchEnd: () -> Void = {}

        func put(_ event: ICEEvent) {
            if let onEvent { onEvent(event) } else { waiting.append(event) }
        }

        func deliver(_ onEvent: @escaping (ICEEvent) -> Void) {
            self.onEvent = onEvent
            for event in exchange(&waiting, with: []) { onEvent(event) }
        }
    }
}
