import Synchronization

/// The streams of a manager, and what its sessions report to them.
final class StateHub: Sendable {
    let streams = Broadcast<RealtimeMediaStream>(newest: 4)
    let notices = Broadcast<RealtimeNotice>(newest: 64)
    private let states = Broadcast<DecartRealtimeState>(newest: 64)

    private struct State {
        var current = DecartRealtimeState()
        var wasReconnecting = false
        /// States of a session that is over do not count.
        var isLive = false
        var remote: (@Sendable () -> RealtimeMediaStream?)?
    }
    private let stored = Mutex(State())

    var state: DecartRealtimeState { stored.withLock(\.current) }

    var events: AsyncStream<DecartRealtimeState> {
        let state = state
        return states.stream(from: state.connectionState == .idle ? nil : state)
    }

    var host: RealtimeSession.Host {
        RealtimeSession.Host(
            state: { [weak self] in self?.changed(to: $0) }, notice: { [weak self] in self?.notices.yield($0) })
    }

    /// - Parameter remote: the stream of the session that begins.
    func begin(_ remote: @escaping @Sendable () -> RealtimeMediaStream?) {
        stored.withLock { ($0.isLive, $0.wasReconnecting, $0.remote) = (true, false, remote) }
    }

    private func changed(to state: DecartRealtimeState) {
        let (isNew, remote) = stored.withLock { stored -> (Bool, (@Sendable () -> RealtimeMediaStream?)?) in
            guard stored.isLive, stored.current != state else { return (false, nil) }
            stored.current = state
            if state.connectionState == .reconnecting { stored.wasReconnecting = true }
            guard state.connectionState.isConnected, stored.wasReconnecting else { return (true, nil) }
            stored.wasReconnecting = false
            return (true, stored.remote)
        }
        if isNew { states.yield(state) }
        if let stream = remote?() { streams.yield(stream) }
    }

    /// The first attempt has failed: the state is `error`, or `disconnected` if the application gave up.
    func failed(_ error: any Error) {
        let state = stored.withLock { stored -> DecartRealtimeState? in
            guard stored.isLive else { return nil }
            stored.isLive = false
            let final: DecartRealtimeConnectionState = error is CancellationError ? .disconnected : .error
            guard stored.current.connectionState != final else { return nil }
            stored.current.connectionState = final
            return stored.current
        }
        if let state { states.yield(state) }
    }

    /// The application has ended the session.
    func disconnected() {
        let state = stored.withLock { stored -> DecartRealtimeState in
            stored.isLive = false
            stored.current = DecartRealtimeState()
            stored.current.connectionState = .disconnected
            return stored.current
        }
        states.yield(state)
        finish()
    }

    func finish(forGood: Bool = false) {
        states.finish(forGood: forGood)
        streams.finish(forGood: forGood)
        notices.finish(forGood: forGood)
    }
}
