// A byte pipe to a TURN server through TLS, an HTTP proxy or both, for libraries that know neither. What the server sends
// has a bound. It knows of TURN nothing but its frames.
import DecartProtocol
package import DecartSession
import EventLoopThreads
import MediaSecurity
import Network

/// Listens on a port of a loopback address and forwards each connection to one port of one host, through verified TLS if `trust`
/// is set.
///
/// Any local process may connect; it gains nothing that it could not do by itself. The tunnel ends with `close()` or
/// when it is released.
// @unchecked: after init, used only on `thread`, except in deinit.
package final class ServerTunnel: @unchecked Sendable {
    package enum Event: Sendable, Equatable {
        case listening(port: UInt16)
        /// The listener could not be opened, or a connection through the tunnel failed. Emitted once.
        case failed(SessionError)
    }

    /// libnice connects once for each local address.
    private static let maximumConnections = 32

    private let thread = NetworkThread.shared
    private let destination: Destination
    private let proxy: ProxyURL?
    private let address: String
    private var onEvent: (@Sendable (Event) -> Void)?
    private var isClosed = false
    private var hasFailed = false
    private var listener: Listener?
    private var pipes: [ObjectIdentifier: Pipe] = [:]

    /// - Parameters:
    ///   - host: a host name or an address literal; IPv6 without brackets.
    ///   - trust: nil: no TLS.
    ///   - refusesLocal: see `NetworkRoute.destination`.
    ///   - address: 127.0.0.1, or ::1.
    ///   - limit: timeout for connecting and again for the TLS handshake.
    ///   - onEvent: called on the network thread; must not block.
    package init(
        host: String, port: UInt16, trust: TLSTrust?, route: NetworkRoute = NetworkRoute(),
        refusesLocal: Bool = false, listeningAt address: String = "127.0.0.1", limit: Duration = .seconds(8),
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        destination = route.destination(host, Int(port), limit: limit, refusesLocal: refusesLocal)
        (proxy, self.address, self.onEvent) = (route.proxy(to: host), address, onEvent)
        TLSTrust.prepare(trust, protocols: [], on: thread, orElse: { [weak self] in self?.fail($0) }) { [weak self] in
            self?.open($0)
        }
    }

    deinit { Self.end(listener, pipes, on: thread) }

    package func close() {
        thread.async { [self] in
            (isClosed, onEvent) = (true, nil)
            Self.end(listener.take(), pipes, on: thread)
        }
    }

    private func open(_ tls: TLSClientContext?) {
        guard !isClosed else { return }
        guard let address = SocketAddress(ip: address, port: 0),
            let listener = try? Listener(at: address, on: thread, onAccept: { [weak self] in self?.accept($0, tls) }),
            let port = UInt16(exactly: listener.port)
        else {
            return fail(
                SessionError(
                    .network,
                    "No local port could be opened for the tunnel to the TURN server. Check the limit of open files.",
                    stage: .connect))
        }
        self.listener = listener
        onEvent?(.listening(port: port))
    }

    private func accept(_ near: ByteStream, _ tls: TLSClientContext?) {
        guard !isClosed, pipes.count < Self.maximumConnections else { return near.close() }
        let pipe = Pipe(near, to: destination, tls)
        let id = ObjectIdentifier(pipe)
        pipes[id] = pipe
        pipe.onEnd = { [weak self] error in
            guard let self else { return }
            pipes[id] = nil
            switch error {
            case nil: break
            case .network(let error):
                fail(ConnectFailure.error(error, host: destination.host, port: destination.port, proxy: proxy))
            case .frames(let redirects):
                let server = "\(destination.host):\(destination.port)"
                let text =
                    redirects
                    ? "redirects to another TURN server, which is not followed. Name that one."
                    : "sends what is not TURN. Check the port."
                fail(SessionError(.network, "\(server) \(text)", stage: .connect))
            }
        }
    }

    // MARK: Closing

    private func fail(_ error: SessionError) {
        guard !isClosed, !hasFailed else { return }
        hasFailed = true
        onEvent?(.failed(error))
    }

    private static func end(_ listener: Listener?, _ pipes: [ObjectIdentifier: Pipe], on thread: NetworkThread) {
        thread.async {
            listener?.close()
            for pipe in pipes.values { pipe.close() }
        }
    }
}

/// Two streams that forward to each other. Each reads only as fast as the other can write, and the remote one at most at a
/// rate that media never reach: a library that reads until nothing is left would do nothing else.
// @unchecked: used only on the thread of its streams.
private final class Pipe: @unchecked Sendable {
    enum Failure {
        /// The remote end could not be opened.
        case network(NetworkError)
        /// It sends something else than TURN, or redirects: libnice would leave the tunnel, with its TLS and its proxy, for
        /// any address, as often as the server wants.
        case frames(redirects: Bool)
    }

    private static let period = Duration.milliseconds(250)
    private static let limit = (bytes: 2 << 20, frames: 5_000)

    /// Called once.
    var onEnd: ((Failure?) -> Void)?
    private var frames = TURNFrames()
    /// Bytes and frames of the remote end in the present period; nil: none.
    private var received: (bytes: Int, frames: Int)?
    private let near: ByteStream
    private var far: ByteStream?
    private var connector: Connector?

    init(_ near: ByteStream, to destination: Destination, _ tls: TLSClientContext?) {
        self.near = near
        near.onEvent = { self.received($0, from: near, to: self.far) }
        near.start()
        // Bytes wait in the socket until the remote end is open.
        near.setReading(false)
        connector = Connector(to: destination, tls: tls, on: near.thread) { result in
            switch result {
            case .success(let far): self.join(far)
            case .failure(let error): self.end(.network(error))
            }
        }
    }

    private func join(_ far: ByteStream) {
        connector = nil
        self.far = far
        far.onEvent = { self.received($0, from: far, to: self.near) }
        near.setReading(true)
    }

    private func received(_ event: ByteStream.Event, from: ByteStream, to other: ByteStream?) {
        switch event {
        case .received(let bytes):
            if from !== near, !admit(bytes) { return end(.frames(redirects: frames.redirects)) }
            other?.write(bytes)
            if other?.isWritable == false || from !== near && isOverLimit { from.setReading(false) }
        case .writable: if other === near || !isOverLimit { other?.setReading(true) }
        case .ended: end(nil)
        case .connected, .secured: break
        }
    }

    private var isOverLimit: Bool {
        received.map { $0.bytes > Self.limit.bytes || $0.frames > Self.limit.frames } ?? false
    }

    /// - Returns: false if the bytes are no frames of TURN, or redirect.
    private func admit(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let number = frames.follow(bytes), !frames.redirects else { return false }
        if received == nil {
            near.thread.later(after: Self.period) { [weak self] in
                guard let self else { return }
                self.received = nil
                if self.near.isWritable { self.far?.setReading(true) }
            }
        }
        received = ((received?.bytes ?? 0) + bytes.count, (received?.frames ?? 0) + number)
        return true
    }

    func close() { end(nil) }

    private func end(_ error: Failure?) {
        connector?.cancel()
        connector = nil
        // Bytes that one end sent before it ended may still wait at the other.
        for stream in [near, far] { stream?.finish(within: .seconds(1)) }
        far = nil
        let onEnd = onEnd
        self.onEnd = nil
        onEnd?(error)
    }
}
