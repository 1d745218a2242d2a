import DecartProtocol
import DecartSession
import Network
import Signalling
import Synchronization
import TestSupport
import Testing

/// Channels and requests through an HTTP proxy. The names of the servers do not exist: only the proxy can reach them.
@Suite("Proxy", .timeLimit(.minutes(1)))
struct ProxyTests {
    private static let credentials = "canary-user:canary-password"

    private func url(_ proxy: ConnectProxy, credentials: String = "") throws -> ProxyURL {
        try ProxyURL("http://\(credentials)127.0.0.1:\(proxy.port)")
    }

    private func client(
        _ proxy: ProxyURL, to port: Int, host: String = "service.test", secure: Bool = false, trust: TLSTrust = .system
    ) throws -> Client {
        try Client(port: port, host: host, secure: secure) {
            $0.route = NetworkRoute(proxy: proxy)
            $0.trust = trust
        }
    }

    /// The proxy gets the target and the credentials; the service gets neither, and sees the usual request.
    @Test(arguments: [false, true]) func aChannelOpens(isSecure: Bool) async throws {
        let certificates = try Certificates()
        let server = try RawServer(
            Script(), tls: isSecure ? certificates.server(name: "service", san: "DNS:service.test") : nil)
        let proxy = try ConnectProxy()
        let client = try client(
            url(proxy, credentials: "\(Self.credentials)@"), to: server.port, secure: isSecure,
            trust: .only(file: certificates.path("ca.pem")))
        let events = client.open()
        let first = await events.next("the channel to open")
        #expect(first?.isOpened == true, "\(String(describing: first))")
        client.channel.send(Array("hello".utf8))
        #expect(await server.waitForFrames { $0.contains { $0.payload == Array("hello".utf8) } })
        client.channel.close()
        let request = try #require(proxy.requests.first)
        #expect(proxy.requests.count == 1)
        #expect(request.hasPrefix("CONNECT service.test:\(server.port) HTTP/1.1\r\n"), "\(request)")
        #expect(
            RawServer.header("Proxy-Authorization", in: request) == "Basic Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXBhc3N3b3Jk")
        #expect(server.requests.allSatisfy { !$0.lowercased().contains("proxy-") })
        await server.stop()
    }

    /// Each refusal names the proxy, the cause and the remedy, and never the credentials.
    @Test(arguments: [
        ("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", true, "user name or the password"),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nbody", true, "Permit CONNECT"),
        ("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", false, "cannot reach service.test:9"),
        ("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", false, "cannot reach service.test:9"),
        ("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", false, "HTTP 400"),
        ("SSH-2.0-OpenSSH_9\r\n\r\n", false, "something else than HTTP"), ("", false, "closed the connection"),
    ]) func aRefusal(answer: String, isPermanent: Bool, text: String) async throws {
        let proxy = try ConnectProxy { _ in answer }
        let client = try client(url(proxy, credentials: "\(Self.credentials)@"), to: 9)
        let error = try #require(await client.failure())
        #expect(error.code == .network && error.stage == .connect)
        #expect(error.isPermanent == isPermanent)
        #expect(error.message.contains(text) && error.message.contains("127.0.0.1:\(proxy.port)"), "\(error)")
        #expect(!"\(error)".contains("canary"))
    }

    @Test func credentialsAreMissing() async throws {
        let proxy = try ConnectProxy { _ in "HTTP/1.1 407 Authenticate\r\n\r\n" }
        let error = try #require(await client(url(proxy), to: 9).failure())
        #expect(error.isPermanent && error.message.contains("http-proxy=http://user:password@"), "\(error)")
    }

    @Test func aSilentProxyIsATimeout() async throws {
        let proxy = try ConnectProxy { _ in nil }
        let error = try #require(await client(url(proxy), to: 9).failure(timeout: .seconds(1)))
        #expect(error.code == .connectionTimeout && error.message.contains("HTTP proxy"), "\(error)")
    }

    @Test func unreachableProxyIsANetworkError() async throws {
        let port = try LoopbackSocket.freePort()
        let proxy = try ProxyURL("http://\(Self.credentials)@127.0.0.1:\(port)")
        let error = try #require(await client(proxy, to: 9).failure())
        #expect(error.code == .network && !error.isPermanent)
        #expect(error.message.contains("The HTTP proxy cannot be reached") && error.message.contains("refused"))
        #expect(!"\(error)".contains("canary"))
    }

    /// A tunnel does not weaken TLS: the proxy may lead to a server that is not the named one.
    @Test func theServerIsVerified() async throws {
        let certificates = try Certificates()
        let server = try RawServer(Script(), tls: certificates.server(name: "other", san: "DNS:other.test"))
        let proxy = try ConnectProxy()
        let client = try client(
            url(proxy), to: server.port, secure: true, trust: .only(file: certificates.path("ca.pem")))
        let error = try #require(await client.failure())
        #expect(error.stage == .tls && error.message.contains("another host name"), "\(error)")
        #expect(server.bytesReceived == 0)
        await server.stop()
    }

    /// The address of the connection's other end is the proxy's: the certificate has to be for that of the URL.
    @Test(arguments: ["IP:192.0.2.1", "IP:127.0.0.1", "DNS:192.0.2.1"])
    func anAddressIsVerified(san: String) async throws {
        let certificates = try Certificates()
        let server = try RawServer(Script(), tls: certificates.server(name: "address", san: san))
        let proxy = try ConnectProxy()
        let client = try client(
            url(proxy), to: server.port, host: "192.0.2.1", secure: true,
            trust: .only(file: certificates.path("ca.pem")))
        switch await client.open().next("the channel to open") {
        case .opened?: #expect(san == "IP:192.0.2.1")
        case .failed(let error)?:
            #expect(san != "IP:192.0.2.1")
            #expect(error.stage == .tls && error.isPermanent && error.message.contains("another host"), "\(error)")
            #expect(server.bytesReceived == 0)
        case let event: Issue.record("\(String(describing: event))")
        }
        #expect(proxy.requests.count == 1)
        client.channel.close()
        await server.stop()
    }

    @Test func thisMachineIsReachedWithoutTheProxy() async throws {
        let server = try RawServer(Script())
        let proxy = try ConnectProxy()
        let client = try client(url(proxy), to: server.port, host: "127.0.0.1")
        #expect(await client.open().next("the channel to open")?.isOpened == true)
        #expect(proxy.requests.isEmpty)
        client.channel.close()
        await server.stop()
    }

    @Test func aKeyIsFetched() async throws {
        let server = try RawServer(.http { _ in APIKeyFetcherTests.answer("200 OK", #"{"apiKey":"ek_1"}"#) })
        let proxy = try ConnectProxy()
        var configuration = HTTPConfiguration()
        configuration.route = NetworkRoute(proxy: try url(proxy))
        let fetcher = APIKeyFetcher(
            url: try HTTPURL(backend: "http://keys.test:\(server.port)/key", allowInsecure: true),
            configuration: configuration)
        let results = EventQueue<Result<ClientToken, SessionError>>()
        let fetch = fetcher.fetch { results.yield($0) }
        let token = try #require(await results.next("a key")).get()
        #expect(token.key.reveal() == "ek_1")
        #expect(proxy.requests.count == 1)
        withExtendedLifetime(fetch) {}
        await server.stop()
    }

    // MARK: Local addresses

    /// Only an address of the destination's family is used; without one, the error has the given sentence.
    @Test func theLocalAddressIsUsed() async throws {
        let server = try RawServer(Script(), host: "0.0.0.0")
        // Not loopback by its text, for which no local address applies, but by its meaning.
        let host = "127.0.0.2"
        func client(_ addresses: [String]) throws -> Client {
            try Client(port: server.port, host: host) {
                $0.route = NetworkRoute(source: .init(absence: "tun0 has no address") { addresses })
            }
        }
        // A loopback destination is reached from any address.
        let first = try client([])
        #expect(await first.open().next("the channel to open")?.isOpened == true)
        first.channel.close()
        // 0.0.0.0 is this host too, but no loopback address.
        func unspecified(_ addresses: [String]) throws -> Client {
            try Client(port: server.port, host: "0.0.0.0") {
                $0.route = NetworkRoute(source: .init(absence: "tun0 has no address") { addresses })
            }
        }
        let second = try unspecified(["::1", "127.0.0.3"])
        #expect(await second.open().next("the channel to open")?.isOpened == true)
        second.channel.close()
        #expect(server.peers.contains("127.0.0.3"), "\(server.peers)")
        let error = try #require(await unspecified(["::1"]).failure())
        #expect(error.code == .network && !error.isPermanent && error.message == "Tun0 has no address.", "\(error)")
        await server.stop()
    }
}
