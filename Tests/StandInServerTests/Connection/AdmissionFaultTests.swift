import DecartProtocol
import Glibc
import StandInServer
import TestSupport
import Testing

/// Faults before the WebSocket is open, verified by bytes and status codes.
@Suite(.timeLimit(.minutes(1)))
struct AdmissionFaultTests {
    @Test(arguments: [
        ("http_200html", 200, "text/html"), ("http_301", 301, "Location: https://elsewhere.invalid/"),
        ("http_302", 302, "Location: https://elsewhere.invalid/"), ("http_401", 401, "invalid api key"),
        ("http_400", 400, #"{"detail":"Invalid request"}"#), ("http_402", 402, #"{"detail":"Insufficient credits"}"#),
        ("http_410", 410, #"{"detail":"#), ("http_422", 422, #""loc":["query","model"],"msg":"Field required""#),
        ("http_403", 403, "permission denied"), ("http_404", 404, "not found"),
        ("http_429:delay=7", 429, "Retry-After: 7"), ("http_500", 500, "internal error"),
        ("http_503", 503, "Retry-After: 5"), ("http_511", 511, "<form>"),
    ])
    func statuses(spec: String, status: Int, excerpt: String) throws {
        try withFaults(spec) { server in
            let client = try RawSocket(port: server.port)
            client.request(TestServer.target)
            #expect(client.read() == .finished)
            #expect(client.text.hasPrefix("HTTP/1.1 \(status) "))
            #expect(client.text.contains(excerpt), "\(client.text)")
            #expect(server.server.sessions.isEmpty)
        }
    }

    @Test func theURLChoosesForItsOwnConnection() throws {
        try withFaults { server in
            let target = TestServer.target
            #expect(throws: TestClient.Refused(status: 503)) { try server.connect(target + "&fault=http_503") }
            let client = try server.connect(target + "&fault=no_first_message&fault=ack_twice")
            try client.send(.prompt(PromptMessage(text: "lego", enhance: false)))
            let ack = TestClient.Event.message(.promptAck(PromptAck(prompt: "lego", success: true)))
            #expect(try client.next() == ack)
            #expect(try client.next() == ack)
            client.close()
            _ = try server.greeted()
        }
    }

    @Test(arguments: [
        ("nonsense", "no fault"), ("refuse", "before the URL"), ("tls_bad_ca", "before the URL"),
        ("rst_on_accept", "before the URL"), ("http_500:count=1", "not for a URL"),
    ])
    func aURLsMistakeIsExplained(spec: String, excerpt: String) throws {
        try withFaults { server in
            let client = try RawSocket(port: server.port)
            client.request(TestServer.target + "&fault=" + PercentEncoding.encode(spec))
            #expect(client.read() == .finished)
            #expect(client.text.hasPrefix("HTTP/1.1 400 "))
            #expect(client.text.contains(excerpt), "\(client.text)")
        }
    }

    @Test func resetOnAccept() throws {
        try withFaults("rst_on_accept:count=1") { server in
            #expect(try RawSocket(port: server.port).read() == .reset)
            try server.connect().close()
        }
    }

    @Test func refusedUntilThePlanChanges() throws {
        try withFaults("refuse") { server in
            #expect(throws: RawSocket.ConnectError(code: ECONNREFUSED)) { try RawSocket(port: server.port) }
            try server.server.setFaults([])
            try server.connect().close()
            try server.server.setFaults([Fault(.refuse)])
            #expect(throws: RawSocket.ConnectError(code: ECONNREFUSED)) { try RawSocket(port: server.port) }
        }
    }

    @Test func refusedForAWhileAndTheOpenSessionStays() throws {
        try withFaults { server in
            let client = try server.greeted()
            try server.server.setFaults([try Fault(parsing: "refuse:for=2")])
            #expect(throws: RawSocket.ConnectError(code: ECONNREFUSED)) { try RawSocket(port: server.port) }
            client.ping([1])
            #expect(try client.next() == .pong([1]))
            let deadline = ContinuousClock.now + .seconds(20)
            var isBack = false
            while !isBack, .now < deadline { isBack = (try? RawSocket(port: server.port)) != nil }
            #expect(isBack)
        }
    }

    @Test func headersWithoutEnd() throws {
        try withFaults("endless_headers") { server in
            let client = try RawSocket(port: server.port)
            client.request(TestServer.target)
            #expect(client.read { $0.count > 1 << 20 } == nil)
            #expect(client.text.hasPrefix("HTTP/1.1 101 "))
            #expect(!client.text.contains("\r\n\r\n"))
        }
    }

    /// Bytes come, each 50 ms after the one before: far from all of them within half a second.
    private func expectDrip(_ client: RawSocket, test: String = #function) {
        #expect(client.read(seconds: 0.5) == .timedOut)
        measure("bytes in 0.5 s", Double(client.received.count), atMost: 20, unit: "bytes", test: test)
        #expect(client.read { $0.count >= 2 } == nil)
        #expect(client.received.count < 100)
    }

    @Test func theUpgradeDrips() throws {
        try withFaults("slow_upgrade:interval=0.05") { server in
            let client = try RawSocket(port: server.port)
            client.request(TestServer.target)
            expectDrip(client)
            #expect("HTTP/1.1 101".hasPrefix(client.text) || client.text.hasPrefix("HTTP/1.1 101"))
        }
    }

    @Test func framesDrip() throws {
        try withRawClient("slow_frame:interval=0.05") { client, _ in
            expectDrip(client)
            #expect(client.received.first == 0x81)
        }
    }

    @Test func faultsOfTLSNeedTLS() throws {
        var configuration = StandInConfiguration()
        configuration.port = 0
        for spec in ["tls_bad_expired", "slow_tls"] {
            configuration.faults = [try Fault(parsing: spec)]
            #expect(throws: StandInError.self) { try StandInServer(configuration: configuration).start() }
        }
        try withFaults { server in
            #expect(throws: StandInError.self) { try server.server.setFaults([Fault(.tls(.old))]) }
        }
    }
}
