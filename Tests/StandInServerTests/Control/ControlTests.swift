import DecartProtocol
import StandInServer
import Testing

@Suite(.timeLimit(.minutes(1)))
struct ControlTests {
    @Test func itIsOffUnlessAskedFor() throws {
        try TestServer.run { server in
            #expect(server.server.controlPort == nil)
            #expect(throws: TestClient.Refused(status: 404)) { try server.connect("/control/faults") }
        }
    }

    @Test func faultsAreReplacedAndTakenAway() throws {
        try withControl { server, port in
            let set = try ask(port, "POST", "/control/faults", body: "# note\nhttp_500:count=1\nno_pong\n")
            #expect(set.hasPrefix("HTTP/1.1 200 "))
            #expect(try ask(port, "GET", "/control/faults").contains("http_500:count=1\nno_pong\n"))
            #expect(throws: TestClient.Refused(status: 500)) { try server.connect() }
            try server.connect().close()
            _ = try ask(port, "DELETE", "/control/faults")
            #expect(server.server.faults.isEmpty)
        }
    }

    @Test func aMistakeChangesNothing() throws {
        try withControl { server, port in
            _ = try ask(port, "POST", "/control/faults", body: "no_pong")
            let bad = try ask(port, "POST", "/control/faults", body: "http_500\nnonsense")
            #expect(bad.hasPrefix("HTTP/1.1 400 ") && bad.contains("no fault \"nonsense\""))
            #expect(server.server.faults.map(\.kind.name) == ["no_pong"])
            let tls = try ask(port, "POST", "/control/faults", body: "tls_bad_ca")
            #expect(tls.hasPrefix("HTTP/1.1 400 ") && tls.contains("--tls-ca"))
            #expect(try ask(port, "POST", "/control/close?code=70000").hasPrefix("HTTP/1.1 400 "))
            #expect(try ask(port, "GET", "/nothing").hasPrefix("HTTP/1.1 404 "))
        }
    }

    @Test func oneSessionIsClosedAndAnotherDropped() throws {
        try withControl { server, port in
            let first = try server.connect()
            let firstID = try first.expectGreeting().id
            let second = try server.connect()
            let secondID = try second.expectGreeting().id
            _ = try ask(port, "POST", "/control/close?session=\(firstID)&code=1013")
            #expect(try first.next() == .closeFrame(code: 1013))
            second.ping([1])
            #expect(try second.next() == .pong([1]))
            _ = try ask(port, "POST", "/control/drop?session=\(secondID)")
            #expect(try second.next() == .closed)
        }
    }

    @Test func everythingIsDropped() throws {
        try withControl { server, port in
            let raw = try RawSocket.webSocket(port: server.port)
            let idle = try RawSocket(port: server.port)
            idle.send("GET ")
            _ = try ask(port, "POST", "/control/drop")
            #expect(raw.read() == .reset)
            #expect(idle.read() == .reset)
        }
    }

    @Test func faultsComeIntoRunningSessions() throws {
        try withControl { server, port in
            let (client, media) = try server.negotiate()
            _ = try ask(port, "POST", "/control/inject", body: "ack_twice\nmedia_freeze\nerror_transient")
            #expect(try client.next() == .message(.error("internal error, try again")))
            try client.send(.prompt(PromptMessage(text: "a", enhance: false)))
            let ack = TestClient.Event.message(.promptAck(PromptAck(prompt: "a", success: true)))
            #expect(try client.next() == ack)
            #expect(try client.next() == ack)
            #expect(media.addedFaults.contains { $0.kind == .media(.freeze) })
            let bad = try ask(port, "POST", "/control/inject", body: "http_500")
            #expect(bad.hasPrefix("HTTP/1.1 400 "))
            client.close()
        }
    }

    /// A DNS rebinding attack, which points its own host name at this machine, sends that name in `Host`.
    @Test(arguments: [
        ("Host: localhost:9002", 200), ("Host: LOCALHOST", 200), ("Host: 127.0.0.1:9002", 200),
        ("Host: 127.8.9.1", 200),
        ("Host: [::1]:9002", 200), ("Host: evil.example", 403), ("Host: evil.example:9002", 403),
        ("Host: localhost.evil.example", 403), ("Host: 127.0.0.1.evil.example", 403), ("Host: 10.0.0.1", 403),
        ("Host: [::2]", 403), ("Host: ", 403), ("Host: localhost\r\nHost: evil.example", 403), ("X-None: ", 400),
    ])
    func theHostIsThisMachine(host: String, status: Int) throws {
        try withControl { _, port in
            let answer = try ask(port, "GET", "/control/sessions", host: host + "\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
        }
    }

    @Test func browsersAndGiantsAreTurnedAway() throws {
        try withControl { server, port in
            let page = try ask(
                port, "POST", "/control/faults", body: "refuse", extra: "Origin: http://evil.example\r\n")
            #expect(page.hasPrefix("HTTP/1.1 403 "))
            let giant = try ask(port, "POST", "/control/faults", body: String(repeating: "#", count: 100 << 10))
            #expect(giant.hasPrefix("HTTP/1.1 413 "))
            #expect(server.server.faults.isEmpty)
        }
    }
}
