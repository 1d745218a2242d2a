// A connection that is made before its URL is known: TCP, and TLS, to the server that will probably be named. Nothing is
// requested over it. A `WebSocketChannel` to the same server takes it; otherwise it closes by itself.
package import DecartProtocol
import EventLoopThreads
import MediaSecurity
import Network

/// A server as a URL names it.
package struct ServerPlace: Sendable, Hashable {
    package let host: String
    package let port: Int
    package let isSecure: Bool

    package init(_ url: ServiceURL) { (host, port, isSecure) = (url.host, url.port, url.isSecure) }
}

// @unchecked: after init, used only on `thread`.
package final class EarlyConnection: @unchecked Sendable {
    private enum Phase {
        case idle
        case preparing
        case connecting(Connector)
        case ready(ByteStream)
        case ended
    }

    /// Longer than a service takes to name a room, and shorter than servers wait for a request.
    package static let lifetime = Duration.seconds(10)

    package let place: ServerPlace
    private let trust: TLSTrust
    private let route: NetworkRoute
    private let refusesLocal: Bool
    private let isAwaited: Bool
    private let lifetime: Duration
    private let thread = NetworkThread.shared
    private var phase = Phase.idle
    private var timer: NetworkTimer?
    /// Network thread; those by which the server was verified.
    private(set) var rootsHash: Int?
    /// Takes the stream once it is connected.
    private var taker: ((ByteStream?) -> Void)?

    /// - Parameter isAwaited: a channel waits for it; else the channel connects again unless the connection stands.
    package init(
        to place: ServerPlace, trust: TLSTrust, route: NetworkRoute, refusesLocal: Bool, isAwaited: Bool = true,
        lifetime: Duration = EarlyConnection.lifetime
    ) {
        (self.place, self.trust, self.route, self.refusesLocal) = (place, trust, route, refusesLocal)
        (self.isAwaited, self.lifetime) = (isAwaited, lifetime)
    }

    /// Any thread. A channel that takes it before the delay is over connects itself.
    package func open(after delay: Duration = .zero) {
        guard thread.start() else { return }
        thread.async {
            guard delay > .zero, case .idle = self.phase else { return self.begin() }
            self.timer = self.thread.later(after: delay) { self.begin() }
        }
    }

    /// Any thread. Without effect once a channel has got the stream.
    package func close() { thread.async { self.end() } }

    private func begin() {
        guard case .idle = phase else { return }
        phase = .preparing
        timer = thread.later(after: lifetime) { self.end() }
        TLSTrust.prepare(place.isSecure ? trust : nil, on: thread, orElse: { _ in self.end() }) { self.connect($0) }
    }

    private func connect(_ tls: TLSClientContext?) {
        guard case .preparing = phase else { return }
        rootsHash = tls?.rootsHash
        let destination = route.destination(
            place.host, place.port, limit: lifetime, refusesLocal: refusesLocal)
        phase = .connecting(
            Connector(to: destination, tls: tls, on: thread) { result in
                switch result {
                case .success(let stream): self.connected(stream)
                case .failure: self.end()
                }
            })
    }

    private func connected(_ stream: ByteStream) {
        if let taker {
            self.taker = nil
            finish()
            return taker(stream)
        }
        // The server has nothing to say before a request.
        stream.onEvent = { [weak self] event in
            switch event {
            case .received, .ended: self?.end()
            case .connected, .secured, .writable: break
            }
        }
        phase = .ready(stream)
    }

    /// Network thread.
    /// - Parameter completion: called once, perhaps during this call; nil: the connection was not made, or is lost. Not
    ///   called after `abandon`.
    func take(_ completion: @escaping (ByteStream?) -> Void) {
        switch phase {
        case .idle, .preparing, .connecting:
            taker = completion
            if !isAwaited { end() }
        case .ready(let stream):
            stream.onEvent = nil
            finish()
            completion(stream)
        case .ended: completion(nil)
        }
    }

    /// Network thread.
    func abandon() {
        taker = nil
        end()
    }

    private func finish() {
        phase = .ended
        timer?.cancel()
    }

    private func end() {
        switch phase {
        case .connecting(let connector): connector.cancel()
        case .ready(let stream): stream.close()
        case .idle, .preparing, .ended: break
        }
        finish()
        let taker = taker
        self.taker = nil
        taker?(nil)
    }
}
