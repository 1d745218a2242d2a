// One connection to one port, to find out how far it gets: name lookup, TCP or UDP, TLS, and then bytes in both
// directions. It knows no protocol above that.
import DecartProtocol
package import DecartSession
import EventLoopThreads
import MediaSecurity
import Network

/// A connection for a diagnosis. It ends with its first failure, with `close()`, or when the limit expires before
/// `connected`.
// @unchecked: after init, used only on the network thread, except the constants.
package final class ProbeConnection: @unchecked Sendable {
    package enum Transport: Sendable {
        case udp, tcp
        /// TLS over TCP.
        /// - Parameter protocols: the protocols to offer by ALPN.
        case tls(TLSTrust, protocols: [String])
    }

    package struct Connected: Sendable, Equatable {
        /// The remote address without the port.
        package var address: String
        /// Such as "TLS 1.3"; nil without TLS.
        package var tlsVersion: String?
        /// Seconds since 1970; nil without TLS.
        package var certificateExpiry: Int?
    }

    package enum Event: Sendable {
        /// The socket is connected; with TLS, the handshake is complete and the server is verified.
        case connected(Connected)
        case received([UInt8])
        /// The last event.
        case failed(SessionError)
    }

    /// A diagnosis needs a few messages, and takes them on another thread: a peer that sends without end would fill the
    /// memory.
    package static let maximumReceived = 256 << 10

    private let host: String
    private let port: Int
    private let transport: Transport
    private let route: NetworkRoute
    private let limit: Duration
    private let thread = NetworkThread.shared
    private var onEvent: (@Sendable (Event) -> Void)?
    private var connector: Connector?
    private var stream: ByteStream?
    private var datagrams: DatagramSocket?
    private var timer: NetworkTimer?
    private var hasTCP = false
    private var receivedBytes = 0

    /// - Parameters:
    ///   - host: a host name or an address literal; IPv6 without brackets.
    ///   - route: its proxy does not apply to UDP.
    ///   - limit: timeout for everything up to `connected`.
    ///   - onEvent: called on the network thread; must not block.
    package init(
        host: String, port: Int, transport: Transport, route: NetworkRoute = NetworkRoute(), limit: Duration,
        onEvent: @escaping @Sendable (Event) -> Void
    ) {
        self.host = host
        self.port = port
        self.transport = transport
        self.route = route
        self.limit = limit
        self.onEvent = onEvent
    }

    package func open() {
        guard thread.start() else {
            return SerialQueue(label: "decart-probe").async { self.fail(ConnectFailure.noThread) }
        }
        thread.async { self.connect() }
    }

    /// Sends bytes; with UDP, one datagram. Does nothing before `connected`.
    package func send(_ bytes: [UInt8]) {
        thread.async {
            self.stream?.write(bytes)
            self.datagrams?.send(bytes)
        }
    }

    /// Call it unless the connection has failed: an open one stays open without its owner.
    package func close() { thread.async { self.end() } }

    private func connect() {
        guard onEvent != nil else { return }
        timer = thread.later(after: limit) { self.timedOut() }
        switch transport {
        case .udp: connectUDP()
        case .tcp: connectTCP(nil, protocols: [])
        case .tls(let trust, let protocols): connectTCP(trust, protocols: protocols)
        }
    }

    private func connectTCP(_ trust: TLSTrust?, protocols: [String]) {
        TLSTrust.prepare(trust, protocols: protocols, on: thread, orElse: { self.fail($0) }) { tls in
            guard self.onEvent != nil else { return }
            self.connector = Connector(
                to: self.route.destination(self.host, self.port, limit: self.limit), tls: tls,
                on: self.thread, onTCP: { self.hasTCP = true }
            ) { result in
                switch result {
                case .success(let stream): self.connected(stream)
                case .failure(let error): self.failed(error)
                }
            }
        }
    }

    private func connected(_ stream: ByteStream) {
        self.stream = stream
        stream.onEvent = { event in
            switch event {
            case .received(let bytes): self.received(Array(bytes))
            case .ended(let error): self.failed(error ?? .ended)
            case .connected, .secured, .writable: break
            }
        }
        connected(
            Connected(
                address: stream.remoteAddress?.ip ?? host, tlsVersion: stream.facts?.version.rawValue,
                certificateExpiry: stream.facts?.certificateExpiry))
    }

    private func connectUDP() {
        HostLookup.resolve(host) { [thread] result in
            thread.async {
                guard self.onEvent != nil else { return }
                switch result {
                case .failure(let failure): self.fail(ConnectFailure.error(failure, host: self.host))
                case .success(let addresses):
                    guard let first = addresses.first, let port = UInt16(exactly: self.port) else { return }
                    self.connectUDP(to: first.with(port: port))
                }
            }
        }
    }

    private func connectUDP(to address: SocketAddress) {
        do throws(NetworkError) {
            let socket = try DatagramSocket(to: address, from: route.source(to: host), on: thread)
            datagrams = socket
            socket.onEvent = { result in
                switch result {
                case .success(let bytes): self.received(bytes)
                case .failure(let error): self.failed(error)
                }
            }
            // There is no handshake to wait for.
            connected(Connected(address: address.ip))
        } catch {
            failed(error)
        }
    }

    private func connected(_ facts: Connected) {
        timer?.cancel()
        connector = nil
        onEvent?(.connected(facts))
    }

    private func received(_ bytes: [UInt8]) {
        receivedBytes += bytes.count
        guard receivedBytes > Self.maximumReceived else { return onEvent?(.received(bytes)) ?? () }
        fail(
            SessionError(
                .network, "\(host):\(port) sends more than an answer has. Check the address and the port.",
                stage: .connect))
    }

    // MARK: The end

    private func failed(_ error: NetworkError) {
        fail(ConnectFailure.error(error, host: host, port: port, proxy: route.proxy(to: host)))
    }

    private func timedOut() {
        if case .udp = transport { return fail(NameLookup.timeout(of: host)) }
        guard case .tls = transport, hasTCP else { return fail(ConnectFailure.timeout(host: host, port: port)) }
        fail(
            SessionError(
                .connectionTimeout,
                "\(host):\(port) accepted the connection and did not answer the TLS handshake in time. "
                    + "Check that the port is one for TLS, and proxies.", stage: .tls))
    }

    private func fail(_ error: SessionError) {
        let onEvent = onEvent
        end()
        onEvent?(.failed(error))
    }

    private func end() {
        onEvent = nil
        timer?.cancel()
        connector?.cancel()
        stream?.close()
        datagrams?.close()
        (connector, stream, datagrams) = (nil, nil, nil)
    }
}

package enum NameLookup {
    /// Finds the distinct addresses of a host, in the system's order of preference.
    /// - Parameter completion: called on another thread, after as long as the system's resolver takes, which can be half
    ///   a minute.
    package static func addresses(
        of host: String, completion: @escaping @Sendable (Result<[String], SessionError>) -> Void
    ) {
        HostLookup.resolve(host) { result in
            completion(
                result.map { $0.map(\.ip) }.mapError { ConnectFailure.error($0, host: host) })
        }
    }

    /// The error of a lookup that took too long.
    package static func timeout(of host: String) -> SessionError { ConnectFailure.error(.timeout, host: host) }
}
