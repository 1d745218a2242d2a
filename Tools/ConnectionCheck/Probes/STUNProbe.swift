// A STUN binding request or a TURN allocation, over UDP, TCP or TLS. It uses no ICE agent: an agent does not say
// whether a server was silent or rejected the credentials.
import DecartProtocol
import DecartSession
import Dispatch
import ICE
import Signalling

final class STUNProbe: @unchecked Sendable {
    // @unchecked: after init, used only on `queue`.
    typealias Completion = @Sendable (ProbeResult) -> Void

    /// RFC 8489 §6.2.1.
    private static let firstRepetition = 500

    private let server: ICEServer
    private let watch = Stopwatch()
    private let queue = DispatchQueue(label: "decart-check.stun")
    private let client: STUNClient
    private var connection: ProbeConnection?
    private var completion: Completion?
    private var request: [UInt8] = []
    private var unread: [UInt8] = []
    private var isConnected = false

    /// - Parameter server: nil: none is configured.
    static func run(_ server: ICEServer?, _ configuration: CheckConfiguration, completion: @escaping Completion) {
        guard let server else {
            let reason =
                configuration.base.isLoopback
                ? "the service is on this machine; --stun-server names a server to try"
                : "no STUN server is given; see --stun-server"
            return completion(.notTried(.stun, "", "Not tried: \(reason)."))
        }
        let probe = STUNProbe(server, completion)
        probe.queue.async { probe.start(configuration) }
    }

    private init(_ server: ICEServer, _ completion: @escaping Completion) {
        self.server = server
        self.completion = completion
        client = STUNClient(server: server)
    }

    private func start(_ configuration: CheckConfiguration) {
        let transport: ProbeConnection.Transport =
            switch server.transport {
            case .udp: .udp
            case .tcp: .tcp
            case .tls: .tls(configuration.serverTrust, protocols: [])
            }
        let limit = configuration.limit
        let connection = ProbeConnection(
            host: server.host, port: Int(server.port), transport: transport,
            route: configuration.route, limit: limit
        ) { [self] event in
            queue.async { self.received(event) }
        }
        self.connection = connection
        connection.open()
        // A little later than the connection's own limit, whose error says more.
        queue.asyncAfter(deadline: .now() + .milliseconds(limit.milliseconds + 50)) { self.timedOut() }
    }

    private func received(_ event: ProbeConnection.Event) {
        switch event {
        case .connected:
            isConnected = true
            send(client.start())
        case .received(let bytes):
            if server.transport == .udp { return step(bytes) }
            // A stream: RFC 8489 §6.2.2, messages follow each other without further framing.
            unread += bytes
            while let size = STUNClient.size(of: unread), size <= unread.count {
                step(Array(unread.prefix(size)))
                unread.removeFirst(size)
            }
        case .failed(let error): failed(error)
        }
    }

    private func step(_ bytes: [UInt8]) {
        switch client.received(bytes) {
        case .none: break
        case .send(let request): send(request)
        case .done(let answer): answered(answer)
        }
    }

    private func send(_ request: [UInt8]) {
        self.request = request
        connection?.send(request)
        if server.transport == .udp { repeatRequest(request, after: Self.firstRepetition) }
    }

    private func repeatRequest(_ request: [UInt8], after milliseconds: Int) {
        queue.asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { [self] in
            guard completion != nil, self.request == request else { return }
            connection?.send(request)
            repeatRequest(request, after: milliseconds * 2)
        }
    }

    // MARK: The end

    private func answered(_ answer: STUNClient.Answer) {
        switch answer {
        case .mapped:
            finish(.ok, "UDP passes in both directions.")
        case .relayed(let release):
            connection?.send(release)
            finish(.ok, "The server allocated a relay over \(way).")
        case .refused:
            finish(failure, "The server rejected the user name or the password. Check them, and that they are current.")
        case .failed(let code, let reason):
            finish(failure, "The server answered with error \(code): \(reason.printable(limit: 100)). \(advice(code))")
        case .invalid:
            finish(failure, "The server's answer does not follow the protocol. Check the address and the port.")
        }
    }

    private func advice(_ code: Int) -> String {
        switch code {
        case 403: "The server does not permit this; ask its operator."
        case 486, 508: "The server has no more relays for this user; retry later."
        default: "Check the server."
        }
    }

    private func failed(_ error: SessionError) {
        guard server.transport == .udp, error.message.contains("connection refused") else {
            return finish(failure, error.message)
        }
        finish(failure, "The server's port is closed, or a firewall rejects UDP. Check the address and the firewall.")
    }

    private func timedOut() {
        let advice =
            switch (server.kind, server.transport) {
            case (.stun, _): "Check the firewall. Where UDP is blocked, media need a TURN server over TCP or TLS."
            case (_, .udp): "Check the firewall and the address; where UDP is blocked, use the server over TCP or TLS."
            default: "Check the address, the port and the firewall."
            }
        finish(failure, "The server did not answer over \(way) in time. \(advice)")
    }

    private var failure: ProbeResult.Outcome { .failed(server.kind == .stun ? .udp : .turn) }
    private var kind: ProbeKind { server.kind == .stun ? .stun : .turn }
    private var way: String { "\(server.transport)".uppercased() }

    private func finish(_ outcome: ProbeResult.Outcome, _ message: String) {
        guard let completion else { return }
        self.completion = nil
        completion(ProbeResult(kind, "\(server)", outcome, watch.elapsed, message))
        // `close` follows the release of the relay on the same event loop.
        connection?.close()
        connection = nil
    }
}
