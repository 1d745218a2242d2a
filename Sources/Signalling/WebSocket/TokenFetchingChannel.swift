// A channel that fetches a key from the user's backend and then opens the real channel with it: one key per attempt.
// The timeout of `open` covers both.
package import DecartProtocol
package import DecartSession
import EventLoopThreads
import Synchronization

package final class TokenFetchingChannel: SignallingChannel {
    private enum Phase {
        case idle
        case starting
        case fetching(HTTPExchange)
        /// The key has arrived and the channel is being created.
        case making
        /// The channel exists and emits all further events. The limit comes from the backend's response.
        case open(any SignallingChannel, limit: Duration?)
        case ended
    }

    private let fetcher: APIKeyFetcher
    private let makeChannel: MakeChannel
    private let listener: Listener
    private let phase = Mutex(Phase.idle)

    /// Creates the channel to open, such as a `WebSocketChannel`, which emits its events to the closure. Called once,
    /// on any thread; may block briefly.
    package typealias MakeChannel =
        @Sendable (APIKey, _ onEvent: @escaping @Sendable (SignallingEvent) -> Void) throws(SessionError)
        -> any SignallingChannel

    /// - Parameter onEvent: called on the network thread; must not block.
    package init(
        fetcher: APIKeyFetcher, makeChannel: @escaping MakeChannel,
        onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) {
        self.fetcher = fetcher
        self.makeChannel = makeChannel
        listener = Listener(onEvent)
    }

    /// Forwards events up to the first `closed` or `failed` and drops the rest: a channel that is released before it
    /// was opened emits an end of its own.
    private final class Listener: Sendable {
        private let onEvent: @Sendable (SignallingEvent) -> Void
        private let isOver = Mutex(false)

        init(_ onEvent: @escaping @Sendable (SignallingEvent) -> Void) {
            self.onEvent = onEvent
        }

        /// Called on the network thread.
        func deliver(_ event: SignallingEvent) {
            let isNews = isOver.withLock { isOver in
                if isOver { return false }
                switch event {
                case .closed, .failed: isOver = true
                case .opened, .text, .binary, .silent, .answered: break
                }
                return true
            }
            if isNews { onEvent(event) }
        }
    }

    deinit {
        phase.withLock { phase in
            switch phase {
            case .fetching(let fetch): fetch.cancel()
            case .open(let channel, _): channel.close()
            case .idle, .starting, .making, .ended: break
            }
        }
    }

    package func open(timeout: Duration) {
        let deadline = ContinuousClock.now + timeout
        guard phase.advance({ if case .idle = $0 { .starting } else { nil } }) else { return }
        let fetch = fetcher.fetch(timeout: timeout) { [weak self] result in
            // Creating and opening a channel reads certificates, which must not block the network thread.
            SerialQueue(label: "decart-channel").async { [weak self] in self?.fetched(result, deadline) }
        }
        // Otherwise it was closed, or the fetch has already completed.
        if !phase.advance({ if case .starting = $0 { .fetching(fetch) } else { nil } }) { fetch.cancel() }
    }

    private func fetched(_ result: Result<ClientToken, SessionError>, _ deadline: ContinuousClock.Instant) {
        do {
            try open(try result.get(), deadline)
        } catch {
            end(.failed(error))
        }
    }

    private func open(_ token: ClientToken, _ deadline: ContinuousClock.Instant) throws(SessionError) {
        guard phase.advance({ if case .ended = $0 { nil } else { .making } }) else { return }
        let channel = try makeChannel(token.key) { [listener] in listener.deliver($0) }
        let isWanted = phase.advance {
            if case .making = $0 { .open(channel, limit: token.sessionLimit) } else { nil }
        }
        // The channel remembers a close that comes in between.
        if isWanted { channel.open(timeout: max(deadline - .now, .milliseconds(1))) }
    }

    package func send(_ text: [UInt8]) { channel?.send(text) }

    package func probe() { channel?.probe() }

    package func messageHandled(size: Int) { channel?.messageHandled(size: size) }

    package func redacting(_ text: String) -> String { channel?.redacting(text) ?? text }

    private var channel: (any SignallingChannel)? {
        phase.withLock { phase in if case .open(let channel, _) = phase { channel } else { nil } }
    }

    package var secret: Secret? { channel?.secret }

    package var sessionLimit: Duration? {
        phase.withLock { phase in if case .open(_, let limit) = phase { limit } else { nil } }
    }

    package func close() {
        // Read and end the phase under one lock: otherwise the channel could be created in between and never be closed.
        let before = phase.withLock { phase in
            let before = phase
            if case .open = phase { return before }
            phase = .ended
            return before
        }
        switch before {
        case .open(let channel, _): channel.close()
        case .fetching(let fetch):
            fetch.cancel()
            emit(.closed(code: nil, reason: ""))
        case .idle, .starting, .making: emit(.closed(code: nil, reason: ""))
        case .ended: break
        }
    }

    /// Ends without a channel; ignored once there is one, and after a close.
    private func end(_ event: SignallingEvent) {
        let isFirst = phase.advance { phase in
            switch phase {
            case .ended, .open: nil
            case .idle, .starting, .fetching, .making: .ended
            }
        }
        if isFirst { emit(event) }
    }

    /// Emits asynchronously, so that no event comes during the caller's own call.
    private func emit(_ event: SignallingEvent) {
        NetworkThread.shared.async { [listener] in listener.deliver(event) }
    }
}
