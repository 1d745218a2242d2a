// TURN over TLS, and through an HTTP proxy, in the tunnel that the element uses, against coturn.
import DecartProtocol
import DecartSession
import Glibc
import ICE
import Signalling
import Synchronization
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(1)), .enabled(if: TurnServer.isInstalled, "coturn is not installed"))
struct TurnOverTLSTests {
    /// Both peers may use relay candidates only, and reach the relay only over TLS.
    @Test(arguments: ["localhost", "127.0.0.1"])
    func relayOnly(host: String) async throws {
        let turn = try TurnServer(tls: "DNS:localhost,IP:127.0.0.1")
        let tunnels = Tunnels(.only(file: turn.authority))
        let left = try peer(tunnels, controlling: true, turn.tlsServer(host: host))
        let right = try peer(tunnels, controlling: false, turn.tlsServer(host: host))
        #expect(await TestPeer.connect(left, right), "\(left.warnings) \(right.warnings)")
        let candidates = left.candidates + right.candidates
        #expect(!left.candidates.isEmpty && candidates.allSatisfy { $0.contains("typ relay") })
        #expect(left.agent.selectedPair?.isRelayed == true)

        // More data than a TLS record or a socket buffer holds, in both directions at once.
        for number in 0..<600 {
            let media = [UInt8](repeating: 0x80, count: 1_196) + withUnsafeBytes(of: UInt32(number)) { Array($0) }
            // A datagram that meets a full queue or socket buffer is lost, which is legitimate.
            _ = left.send(media)
            _ = right.send(media)
        }
        let last: [UInt8] = [0x81, 1, 2, 3]
        #expect(eventually { left.send(last) } && eventually { right.send(last) })
        #expect(await right.receives(last))
        #expect(await left.receives(last))
        #expect(tunnels.ports.count == 2)
        await TestPeer.release(left, right)
        #expect(await tunnels.areAllShut(), "a tunnel is open after its agent has gone")
    }

    /// TLS verification is as strict as for the service: trusted issuer and matching name.
    @Test(arguments: [("DNS:other.example", true, "for another host name"), ("DNS:localhost", false, "not trusted")])
    func whoIsNotTheServerGetsNothing(name: String, isTrusted: Bool, text: String) async throws {
        let turn = try TurnServer(tls: name)
        let tunnels = Tunnels(isTrusted ? .only(file: turn.authority) : .system)
        try await expectWarning(tunnels, turn.tlsServer(host: "localhost", credential: "canary"), text)
        #expect(await tunnels.areAllShut())
    }

    /// The port is served by a server without TLS, by none, or by one that never answers the handshake.
    @Test(arguments: ["clear", "nobody", "silent"])
    func noTLSThere(what: String) async throws {
        let turn = try TurnServer()
        let silent = try LoopbackSocket(stream: true)
        let port =
            switch what {
            case "clear": turn.port
            case "nobody": try LoopbackSocket.freePort()
            default: silent.port
            }
        let tunnels = Tunnels(.system, limit: .seconds(1))
        try await expectWarning(tunnels, ICEServer(url: "turns://test:canary@127.0.0.1:\(port)"))
    }

    /// Through a proxy, TURN over plain TCP needs a tunnel too; the server's name is known to the proxy only.
    @Test(arguments: ["tls", "tcp"])
    func throughAProxy(transport: String) async throws {
        let turn = try TurnServer(tls: "DNS:turn.test")
        let proxy = try ConnectProxy()
        let tunnels = Tunnels(
            .only(file: turn.authority),
            route: NetworkRoute(proxy: try ProxyURL("http://canary:canary@127.0.0.1:\(proxy.port)")))
        let server =
            transport == "tls"
            ? try turn.tlsServer(host: "turn.test")
            : try ICEServer(url: "turn://test:pass@turn.test:\(turn.port)?transport=tcp")
        func peer(controlling: Bool) throws -> TestPeer {
            try TestPeer(
                controlling: controlling, servers: [server], policy: .relay, openTunnel: tunnels.opener)
        }
        let (left, right) = (try peer(controlling: true), try peer(controlling: false))
        #expect(await TestPeer.connect(left, right), "\(left.warnings) \(right.warnings)")
        #expect(left.agent.selectedPair?.isRelayed == true)
        let port = transport == "tls" ? turn.tlsPort : turn.port
        #expect(!proxy.requests.isEmpty)
        #expect(proxy.requests.allSatisfy { $0.hasPrefix("CONNECT turn.test:\(port) ") }, "\(proxy.requests)")
        await TestPeer.release(left, right)
        #expect(await tunnels.areAllShut(), "a tunnel is open after its agent has gone")
    }

    @Test func aProxyThatRefusesIsAWarning() async throws {
        let proxy = try ConnectProxy { _ in "HTTP/1.1 407 Authenticate\r\nContent-Length: 0\r\n\r\n" }
        let tunnels = Tunnels(
            .system, route: NetworkRoute(proxy: try ProxyURL("http://canary:canary@127.0.0.1:\(proxy.port)")))
        try await expectWarning(tunnels, ICEServer(url: "turns://test:canary@turn.test:9"), "HTTP 407")
    }

    /// A server that sends what is not TURN, or names another one, is left at once, whatever it sends later.
    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func aServerOverTCPThatIsOfNoUse(redirects: Bool) async throws {
        let flood = try Flood(redirects ? Flood.redirect : [0])
        try await expectWarning(Tunnels(.system), flood.server, redirects ? "redirects" : "not TURN")
        #expect(eventually { flood.isLeft })
    }

    @Test
    func anUnreadableAuthorityIsAWarning() async throws {
        let tunnels = Tunnels(.only(file: "/nonexistent/ca.pem"))
        try await expectWarning(tunnels, ICEServer(url: "turns://test:canary@127.0.0.1:9"), "ca-file")
        #expect(tunnels.ports.isEmpty)
    }

    /// The server stops answering after it has allocated a relay address, and the agent closes: the tunnel closes too.
    @Test
    func closingWithASilentServer() async throws {
        let turn = try TurnServer(tls: "IP:127.0.0.1")
        let tunnels = Tunnels(.only(file: turn.authority))
        let peer = try peer(tunnels, controlling: true, turn.tlsServer(host: "127.0.0.1"))
        #expect(await peer.gather())
        #expect(!peer.candidates.isEmpty)
        turn.freeze()
        await TestPeer.release(peer)
        #expect(await tunnels.areAllShut())
    }

    /// Expects no candidate and exactly one warning, however many addresses this machine has.
    private func expectWarning(_ tunnels: Tunnels, _ server: ICEServer, _ text: String? = nil) async throws {
        let peer = try peer(tunnels, controlling: true, server)
        #expect(await peer.gather())
        #expect(peer.candidates.isEmpty)
        #expect(peer.warnings.count == 1, "\(peer.warnings)")
        if let text { #expect(peer.warnings.allSatisfy { $0.contains(text) }, "\(peer.warnings)") }
        #expect(peer.warnings.allSatisfy { !$0.contains("canary") }, "\(peer.warnings)")
        await TestPeer.release(peer)
    }

    private func peer(_ tunnels: Tunnels, controlling: Bool, _ server: ICEServer) throws -> TestPeer {
        try TestPeer(controlling: controlling, servers: [server], policy: .relay, openTunnel: tunnels.opener)
    }
}

/// Sends the same bytes without end to the clients of a TCP port.
private final class Flood: Sendable {
    /// An error response to Allocate, with ALTERNATE-SERVER alone.
    static let redirect: [UInt8] =
        [1, 0x13, 0, 12, 0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: 7, count: 12)
        + [0x80, 0x23, 0, 8, 0, 1, 0x0D, 0x96, 127, 0, 0, 1]

    private let socket: LoopbackSocket
    private let ended = Atomic(0)
    let server: ICEServer

    init(_ repeated: [UInt8]) throws {
        socket = try LoopbackSocket(stream: true)
        server = try ICEServer(url: "turn://test:canary@127.0.0.1:\(socket.port)?transport=tcp")
        let listener = dup(socket.descriptor)
        detachThread { [weak self] in
            defer { close(listener) }
            let bytes = Array(repeatElement(repeated, count: (1 << 16) / repeated.count).joined())
            while case let client = accept(listener, nil, nil), client >= 0 {
                while send(client, bytes, bytes.count, CInt(MSG_NOSIGNAL)) > 0 {}
                close(client)
                self?.ended.wrappingAdd(1, ordering: .relaxed)
            }
        }
    }

    deinit { shutdown(socket.descriptor, CInt(SHUT_RDWR)) }

    /// A client has closed its connection.
    var isLeft: Bool { ended.load(ordering: .relaxed) > 0 }
}

/// Opens tunnels as the element does, and records their ports.
private final class Tunnels: Sendable {
    private let trust: TLSTrust
    private let route: NetworkRoute
    private let limit: Duration
    private let opened = Mutex<[UInt16]>([])
    var ports: [UInt16] { opened.withLock { $0 } }

    init(_ trust: TLSTrust, route: NetworkRoute = NetworkRoute(), limit: Duration = .seconds(8)) {
        self.trust = trust
        self.route = route
        self.limit = limit
    }

    private struct Tunnel: RelayTunnel {
        let pipe: ServerTunnel
        func close() { pipe.close() }
    }

    var opener: RelayTunnelOpener {
        { [self] server, address, onEvent in
            Tunnel(
                pipe: ServerTunnel(
                    host: server.host, port: server.port, trust: server.transport == .tls ? trust : nil, route: route,
                    listeningAt: address, limit: limit
                ) { [self] event in
                    switch event {
                    case .listening(let port):
                        opened.withLock { $0.append(port) }
                        onEvent(.open(port: port))
                    case .failed(let error): onEvent(.failed(error.message))
                    }
                })
        }
    }

    /// True if all ports stop accepting connections.
    func areAllShut(test: String = #function) async -> Bool {
        let start = ContinuousClock.now
        while .now < start + .seconds(20) {
            if ports.allSatisfy({ !Self.answers($0) }) {
                measure("time until tunnels are shut", ContinuousClock.now - start, atMost: .seconds(2), test: test)
                return true
            }
            await pause(.milliseconds(20))
        }
        return false
    }

    private static func answers(_ port: UInt16) -> Bool {
        let (descriptor, error) = LoopbackSocket.connect(to: port)
        defer { close(descriptor) }
        return error == 0
    }
}
