// A viewer's control channel for a service with LiveKit rooms: one request, whose response names the room, and no
// messages after that. To its owner it looks like any other channel that names a room; it drops all sent messages.
package import DecartProtocol
package import DecartSession
import EventLoopThreads
import Network
import Synchronization

package final class ViewerChannel: SignallingChannel {
    private enum Phase {
        case idle
        /// nil while the exchange is being created.
        case asking(HTTPExchange?)
        case open
        case ended
    }

    private let url: ServiceURL
    private let key: APIKey
    private let configuration: HTTPConfiguration
    private let onEvent: @Sendable (SignallingEvent) -> Void
    private let phase = Mutex(Phase.idle)

    /// - Parameters:
    ///   - url: from `ServiceURL.watchStream`.
    ///   - onEvent: called on a network thread; must not block.
    package init(
        url: ServiceURL, key: APIKey, configuration: HTTPConfiguration = HTTPConfiguration(),
        onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) {
        self.url = url
        self.key = key
        self.configuration = configuration
        self.onEvent = onEvent
    }

    deinit {
        phase.withLock { if case .asking(let exchange) = $0 { exchange?.cancel() } }
    }

    package func open(timeout: Duration) {
        guard phase.advance({ if case .idle = $0 { .asking(nil) } else { nil } }) else { return }
        let asked = ContinuousClock.now
        let exchange = HTTPExchange(request(timeout)) { [weak self] outcome in
            self?.answered(outcome, after: ContinuousClock.now - asked)
        }
        if phase.advance({ if case .asking = $0 { .asking(exchange) } else { nil } }) { exchange.start() }
    }

    private func request(_ timeout: Duration) -> HTTPRequest {
        var configuration = configuration
        configuration.limit = timeout
        return HTTPRequest(
            url: url.http, fields: ["Accept": "application/json", "Content-Length": "0", "x-api-key": key.reveal()],
            maximumSize: LiveKitRoomInfo.maximumSize, configuration: configuration)
    }

    private func answered(_ outcome: HTTPExchange.Outcome, after time: Duration) {
        switch result(of: outcome) {
        case .success(let message):
            guard phase.advance({ if case .asking = $0 { .open } else { nil } }) else { return }
            onEvent(.opened(transport: nil, upgrade: time))
            onEvent(.text(message))
        case .failure(let error):
            if end() { onEvent(.failed(error)) }
        }
    }

    private func result(of outcome: HTTPExchange.Outcome) -> Result<[UInt8], SessionError> {
        switch outcome {
        case .answer(let head, let body) where (200...299).contains(head.status):
            do {
                return .success(try ServerMessage.livekitRoomInfo(try LiveKitRoomInfo(decoding: body)).encoded())
            } catch {
                return .failure(
                    SessionError(
                        .server, "The response of \(url.host) contains no room to watch.", stage: .connect,
                        httpStatus: head.status))
            }
        case .answer(let head, let body):
            return .failure(UpgradeRefusal(head: head, body: body, url: url).error)
        case .tooLong, .timedOut, .failed:
            return .failure(
                outcome.error(
                    tooLong: "The response of \(url.host) with the room to watch exceeds the size limit.",
                    timedOut: "\(url.host):\(url.port) did not send the room to watch in time."))
        }
    }

    /// Drops the message: there is no connection to send it on.
    package func send(_ message: [UInt8]) {}

    package func redacting(_ text: String) -> String { url.redacting(text) }

    package var secret: Secret? { url.secret }

    package var sessionLimit: Duration? { url.sessionLimit }

    package func close() {
        let exchange: HTTPExchange? = phase.withLock { phase in
            if case .asking(let exchange) = phase { exchange } else { nil }
        }
        exchange?.cancel()
        // Emit asynchronously, so that no event comes during the caller's own call.
        if end() { NetworkThread.shared.async { [onEvent] in onEvent(.closed(code: nil, reason: "")) } }
    }

    /// Returns false if the channel had already ended.
    private func end() -> Bool { phase.advance { if case .ended = $0 { nil } else { .ended } } }
}
