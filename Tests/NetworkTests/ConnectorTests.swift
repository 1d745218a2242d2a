import EventLoopThreads
import Glibc
import MediaSecurity
import TestSupport
import Testing

import Network

@Suite(.timeLimit(.minutes(2)))
struct ConnectorTests {
    private static let limit = Duration.seconds(40)

    /// One attempt and its result.
    private final class Attempt: Sendable {
        private let results = EventLog<Result<ByteStream, NetworkError>>()
        let log = StreamLog()
        let tcp = EventLog<Bool>()
        private let connector: Connector

        /// - Parameter addresses: those of every name; nil: those that the system finds.
        init(_ destination: Destination, tls: TLSClientContext? = nil, addresses: [SocketAddress]? = nil) {
            let (results, log, tcp) = (results, log, tcp)
            connector = NetworkThread.test.sync {
                Connector(
                    to: destination, tls: tls, on: .test,
                    lookUpHost: { name, completion in
                        guard let addresses else { return HostLookup.resolve(name, completion: completion) }
                        if !addresses.isEmpty { completion(.success(addresses)) }
                    },
                    onTCP: { tcp.append(true) },
                    completion: { result in
                        if case .success(let stream) = result { log.follow(stream) }
                        results.append(result)
                    })
            }
        }

        func cancel() { NetworkThread.test.sync { [connector] in connector.cancel() } }

        var isOver: Bool { !results.elements.isEmpty }

        private func result() async -> Result<ByteStream, NetworkError>? {
            await results.first(within: limit) { _ in true }
        }

        func stream(sourceLocation: SourceLocation = #_sourceLocation) async throws -> ByteStream {
            try #require(await result(), sourceLocation: sourceLocation).get()
        }

        func error(sourceLocation: SourceLocation = #_sourceLocation) async throws -> NetworkError? {
            if case .failure(let error) = try #require(await result(), sourceLocation: sourceLocation) { return error }
            return nil
        }
    }

    private func destination(_ port: Int, host: String = "127.0.0.1", limit: Duration = limit) -> Destination {
        Destination(host: host, port: port, limit: limit)
    }

    private func close(_ stream: ByteStream) { NetworkThread.test.sync { stream.close() } }

    /// A port whose connections wait for ever: the kernel drops what the full queue of a listener cannot take.
    private final class BlackHole {
        let port: Int
        private let listener: LoopbackSocket
        private var taken: [CInt] = []

        init() throws {
            listener = try LoopbackSocket(stream: true, backlog: 0)
            port = Int(listener.port)
            // The kernel takes one more than the backlog.
            for _ in 0..<4 { taken.append(LoopbackSocket.connect(to: listener.port, isBlocking: false).descriptor) }
        }

        deinit { for descriptor in taken { Glibc.close(descriptor) } }

        /// Another loopback address with the same port, which accepts.
        func neighbour(_ accepted: EventLog<String>) throws -> Listener {
            try Listener(at: .loopback(port, host: 2), on: .test) { stream in
                accepted.append(stream.localAddress?.ip ?? "")
                stream.start()
            }
        }
    }

    // MARK: Addresses

    @Test(arguments: ["127.0.0.1", "localhost"]) func connects(host: String) async throws {
        let listener = try LoopbackSocket(stream: true)
        let attempt = Attempt(destination(Int(listener.port), host: host))
        let stream = try await attempt.stream()
        #expect(attempt.tcp.elements == [true])
        let peer = PlainPeer(acceptedBy: listener)
        NetworkThread.test.sync { stream.write([1, 2]) }
        #expect(peer.receive(2) == [1, 2])
        peer.send([3])
        peer.close()
        #expect(await attempt.log.end() == nil)
        #expect(attempt.log.value.bytes == [3])
        // The result is the last call.
        attempt.cancel()
    }

    /// The server speaks first, in the same moment in which it accepts.
    @Test func nothingIsLostThatComesAtOnce() async throws {
        let listener = try Listener(at: .loopback(), on: .test) { stream in
            stream.write([7])
            stream.finish(within: Self.limit)
        }
        for _ in 0..<20 {
            let attempt = Attempt(destination(listener.port))
            _ = try await attempt.stream()
            #expect(await attempt.log.end() == nil)
            #expect(attempt.log.value.bytes == [7])
        }
        listener.close()
    }

    @Test func refusedConnections() async throws {
        let taken = try LoopbackSocket(stream: true, backlog: nil)
        let port = Int(taken.port)
        #expect(try await Attempt(destination(port)).error() == .system(ECONNREFUSED))
        let all = try (1...3).map { try SocketAddress.loopback(host: $0) }
        let attempt = Attempt(destination(port, host: "name.test"), addresses: all)
        #expect(try await attempt.error() == .system(ECONNREFUSED))
    }

    @Test func theNextAddressFollowsARefusal() async throws {
        let listener = try LoopbackSocket(stream: true)
        let attempt = Attempt(
            destination(Int(listener.port), host: "name.test"), addresses: [try .loopback(host: 2), try .loopback()])
        let stream = try await attempt.stream()
        NetworkThread.test.sync { #expect(stream.remoteAddress?.ip == "127.0.0.1") }
        close(stream)
    }

    @Test(arguments: [(31, true), (32, false), (200, false)])
    func aNameHasAnyNumberOfAddresses(refused: Int, isReached: Bool) async throws {
        let listener = try LoopbackSocket(stream: true)
        let others = try (0..<refused).map { try SocketAddress.loopback(host: UInt8(2 + $0)) }
        let attempt = Attempt(
            destination(Int(listener.port), host: "name.test"), addresses: others + [try .loopback()])
        guard isReached else {
            #expect(try await attempt.error() == .system(ECONNREFUSED))
            return
        }
        close(try await attempt.stream())
    }

    /// RFC 8305: an address that does not answer delays the next one only.
    @Test func anAddressThatDoesNotAnswerIsPassedBy() async throws {
        let blackHole = try BlackHole()
        let accepted = EventLog<String>()
        let listener = try blackHole.neighbour(accepted)
        let attempt = Attempt(
            destination(blackHole.port, host: "name.test"), addresses: [try .loopback(), try .loopback(host: 2)])
        let stream = try await attempt.stream()
        #expect(await accepted.reaches(count: 1))
        #expect(accepted.elements == ["127.0.0.2"] && attempt.tcp.elements == [true])
        close(stream)
        listener.close()
    }

    @Test func familiesAlternate() throws {
        func addresses(_ texts: [String]) throws -> [SocketAddress] {
            try texts.map { try #require(SocketAddress(ip: $0, port: 0)) }
        }
        #expect(
            try Connector.alternating(addresses(["::1", "::2", "::3", "10.0.0.1", "10.0.0.2"]))
                == addresses(["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"]))
        #expect(try Connector.alternating(addresses(["10.0.0.1", "::1"])) == addresses(["10.0.0.1", "::1"]))
        #expect(Connector.alternating([]).isEmpty)
    }

    @Test func onlyPermittedAddressesAreTried() async throws {
        let listener = try LoopbackSocket(stream: true)
        var destination = destination(Int(listener.port), host: "name.test")
        destination.permits = { $0.ip == "127.0.0.1" }
        let addresses = [try SocketAddress.loopback(host: 2), try .loopback()]
        close(try await Attempt(destination, addresses: addresses).stream())
        #expect(
            try await Attempt(destination, addresses: [addresses[0]]).error() == .lookup(.notPermitted))
    }

    @Test(arguments: [-1, 65536, .max]) func noPorts(port: Int) async throws {
        #expect(try await Attempt(destination(port)).error() == .system(EADDRNOTAVAIL))
    }

    @Test func theSourceIsUsed() async throws {
        let listener = try LoopbackSocket(stream: true)
        var destination = destination(Int(listener.port))
        destination.source = SourceAddresses(absence: "tun0 has none") { ["::1", "no address", "127.0.0.8"] }
        let stream = try await Attempt(destination).stream()
        NetworkThread.test.sync { #expect(stream.localAddress?.ip == "127.0.0.8") }
        close(stream)
        destination.source = SourceAddresses(absence: "tun0 has none") { [] }
        #expect(try await Attempt(destination).error() == .noSource("tun0 has none"))
        // Addresses of one family say nothing about the server.
        destination.source = SourceAddresses(absence: "tun0 has none") { ["127.0.0.8"] }
        destination.port = Int(try LoopbackSocket.freePort())
        let both = [try SocketAddress.loopback(), try #require(SocketAddress(ip: "::1", port: 0))]
        #expect(try await Attempt(destination, addresses: both).error() == .system(ECONNREFUSED))
    }

    // MARK: Limits

    @Test func aLookupHasALimit() async throws {
        var destination = destination(9, host: "name.test")
        destination.resolveLimit = .milliseconds(10)
        #expect(try await Attempt(destination, addresses: []).error() == .lookup(.timeout))
        destination.limit = .milliseconds(10)
        destination.resolveLimit = Self.limit
        #expect(try await Attempt(destination, addresses: []).error() == .timedOut)
    }

    @Test func tcpHasALimit() async throws {
        let blackHole = try BlackHole()
        let attempt = Attempt(destination(blackHole.port, limit: .milliseconds(50)))
        #expect(try await attempt.error() == .timedOut)
        #expect(attempt.tcp.elements.isEmpty)
    }

    @Test func cancelClosesWhatIsOpen() async throws {
        let blackHole = try BlackHole()
        for addresses in [nil, []] as [[SocketAddress]?] {
            let attempt = Attempt(destination(blackHole.port), addresses: addresses)
            attempt.cancel()
            attempt.cancel()
            NetworkThread.test.sync {}
            #expect(!attempt.isOver)
        }
        // A proxy that is silent.
        let listener = try LoopbackSocket(stream: true)
        let attempt = Attempt(through(listener.port))
        let peer = PlainPeer(acceptedBy: listener)
        #expect(peer.receive(7) == Array("CONNECT".utf8))
        attempt.cancel()
        #expect(peer.receiveAll().end == .inOrder)
        #expect(!attempt.isOver)
    }

    // MARK: TLS

    private func secureListener(_ server: TLSServerContext) throws -> Listener {
        try Listener(at: .loopback(), on: .test) { stream in
            guard let session = try? TLSSession(server: server) else { return }
            stream.secure(session)
            stream.onEvent = { [unowned stream] event in
                if case .secured = event {
                    stream.write([1, 2, 3])
                    stream.finish(within: Self.limit)
                }
            }
            stream.start()
        }
    }

    @Test(arguments: [("localhost", true), ("127.0.0.1", true), ("other.test", false)])
    func theServerIsVerified(host: String, isValid: Bool) async throws {
        let contexts = try TLSContexts.shared.get()
        let listener = try secureListener(contexts.server)
        let attempt = Attempt(
            destination(listener.port, host: host), tls: contexts.client, addresses: [try .loopback()])
        if isValid {
            let stream = try await attempt.stream()
            NetworkThread.test.sync { #expect(stream.isSecure && stream.facts?.version == .tls13) }
            #expect(await attempt.log.end() == nil)
            #expect(attempt.log.value.bytes == [1, 2, 3])
        } else if case .tls(let error)? = try await attempt.error() {
            #expect(error.code == .wrongHost)
        } else {
            Issue.record("not refused")
        }
        listener.close()
    }

    @Test func theHandshakeHasALimit() async throws {
        let listener = try LoopbackSocket(stream: true)
        let context = try TLSClientContext(roots: .system, protocols: [])
        let attempt = Attempt(destination(Int(listener.port), limit: .seconds(1)), tls: context)
        #expect(try await attempt.error() == .handshakeTimedOut)
        #expect(attempt.tcp.elements == [true])
    }

    @Test func anEndDuringTheHandshakeIsAnError() async throws {
        let listener = try LoopbackSocket(stream: true)
        let context = try TLSClientContext(roots: .system, protocols: [])
        let attempt = Attempt(destination(Int(listener.port)), tls: context)
        let peer = PlainPeer(acceptedBy: listener)
        #expect(peer.receive(1) == [22])
        peer.finish()
        #expect([.ended, .tls(TLSError(.endOfHandshake))].contains(try await attempt.error()))
    }

    // MARK: Proxies

    private func through(
        _ port: UInt16, to target: Int = 9, host: String = "service.test", authorization: String? = nil,
        limit: Duration = limit
    ) -> Destination {
        var destination = Destination(host: host, port: target, limit: limit)
        destination.proxy = .init(host: "127.0.0.1", port: Int(port), authorization: authorization)
        // It is about the server's addresses, which only the proxy knows.
        destination.permits = { _ in false }
        return destination
    }

    @Test(arguments: [("service.test", "service.test"), ("2001:db8::1", "[2001:db8::1]")])
    func aTunnelOpens(host: String, text: String) async throws {
        let listener = try LoopbackSocket(stream: true)
        let proxy = try ConnectProxy()
        let attempt = Attempt(
            through(proxy.port, to: Int(listener.port), host: host, authorization: "Basic YTpi"))
        let stream = try await attempt.stream()
        let peer = PlainPeer(acceptedBy: listener)
        NetworkThread.test.sync { stream.write([1]) }
        #expect(peer.receive(1) == [1])
        peer.send([2])
        await attempt.log.wait("the server's byte") { $0.bytes == [2] }
        let lines = proxy.requests.first?.split(separator: "\r\n").map(String.init)
        #expect(lines?.first == "CONNECT \(text):\(listener.port) HTTP/1.1")
        #expect(lines?.contains("Host: \(text):\(listener.port)") == true)
        #expect(lines?.contains("Proxy-Authorization: Basic YTpi") == true)
        close(stream)
    }

    @Test func aTunnelDoesNotWeakenTLS() async throws {
        let contexts = try TLSContexts.shared.get()
        let listener = try secureListener(contexts.server)
        let proxy = try ConnectProxy()
        for host in ["service.test", "192.0.2.1"] {
            let attempt = Attempt(
                through(proxy.port, to: listener.port, host: host), tls: contexts.client)
            _ = try await attempt.stream()
            #expect(await attempt.log.end() == nil)
            #expect(attempt.log.value.bytes == [1, 2, 3])
        }
        for host in ["other.test", "192.0.2.2"] {
            let attempt = Attempt(
                through(proxy.port, to: listener.port, host: host), tls: contexts.client)
            guard case .tls(let error)? = try await attempt.error() else {
                Issue.record("not refused")
                continue
            }
            #expect(error.code == .wrongHost)
        }
        listener.close()
    }

    @Test(arguments: [
        ("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", ProxyFailure.refused(status: 407)),
        ("HTTP/1.1 302 Found\r\n\r\n", .refused(status: 302)), ("SSH-2.0-OpenSSH_9.2\r\n\r\n", .notHTTP), ("", .closed),
        ("HTTP/1.1 20", .closed),
    ]) func aRefusal(answer: String, failure: ProxyFailure) async throws {
        let proxy = try ConnectProxy { _ in answer }
        #expect(try await Attempt(through(proxy.port)).error() == .proxy(failure))
    }

    @Test func aSilentProxyHasALimit() async throws {
        let proxy = try ConnectProxy { _ in nil }
        let attempt = Attempt(through(proxy.port, limit: .seconds(1)))
        #expect(try await attempt.error() == .proxy(.silent))
        #expect(attempt.tcp.elements == [true])
    }

    @Test func anUnreachableProxyIsNamed() async throws {
        let taken = try LoopbackSocket(stream: true, backlog: nil)
        #expect(try await Attempt(through(taken.port)).error() == .proxy(.unreachable(.system(ECONNREFUSED))))
        let blackHole = try BlackHole()
        let attempt = Attempt(through(UInt16(clamping: blackHole.port), limit: .milliseconds(50)))
        #expect(try await attempt.error() == .proxy(.unreachable(.timedOut)))
    }
}
