import ICE
import Testing

/// Tests which servers are passed to libnice, in which form and when. Runs without libnice.
@Suite(.timeLimit(.minutes(1)))
struct ServerSetupTests {
    private enum Call: Sendable, Equatable {
        case stun(String)
        case turn(String)
        case tunnel
        case warning(String)
        case begin
        case finish
    }

    /// A setup and the calls that it made, in order.
    private struct Fixture: Sendable {
        let setup: ServerSetup
        let calls = EventLog<Call>()

        init(hasIPv4: Bool = true, hasIPv6: Bool = true) {
            let calls = calls
            setup = ServerSetup(
                network: .shared, hasIPv4: hasIPv4, hasIPv6: hasIPv6,
                actions: ServerSetup.Actions(
                    setSTUN: { host, port in calls.append(.stun("\(host) \(port)")) },
                    addTURN: { _, address, port in calls.append(.turn("\(address) \(port)")) },
                    openTunnel: { _ in calls.append(.tunnel) },
                    warn: { calls.append(.warning($0)) },
                    begin: { calls.append(.begin) },
                    finish: { calls.append(.finish) }))
        }

        func start(_ urls: [String]) throws {
            let servers = try urls.map { try ICEServer(url: $0) }
            NetworkThread.shared.sync { setup.start(servers) }
        }

        /// Waits for twice the head start (the time that gathering waits for names and tunnels): timers due before have
        /// fired then.
        func outlastTheHeadStart() async -> Bool {
            let timer = EventLog<Bool>()
            NetworkThread.shared.schedule(after: ServerSetup.headStart * 2) { timer.append(true) }
            return await timer.first { $0 } == true
        }
    }

    @Test
    func aNinthTurnServerIsSkipped() throws {
        let fixture = Fixture()
        try fixture.start((1...9).map { "turn://user:canary@192.0.2.\($0):3478" })
        let calls = fixture.calls.elements
        #expect(
            calls.filter { if case .turn = $0 { true } else { false } } == (1...8).map { .turn("192.0.2.\($0) 3478") })
        let warnings = calls.compactMap { if case .warning(let text) = $0 { text } else { nil } }
        #expect(warnings.count == 1, "\(warnings)")
        #expect(warnings.allSatisfy { $0.contains("8 TURN") && !$0.contains("192.0.2") && !$0.contains("canary") })
        #expect(calls.suffix(2) == [.begin, .finish])
    }

    @Test(arguments: [(true, true), (true, false), (false, true)])
    func serversOfAFamilyThatTheHostHasNotAreSkipped(hasIPv4: Bool, hasIPv6: Bool) throws {
        let fixture = Fixture(hasIPv4: hasIPv4, hasIPv6: hasIPv6)
        try fixture.start(["turn://u:p@192.0.2.1:3478", "turn://u:p@[2001:db8::1]:3478"])
        let calls = fixture.calls.elements
        #expect(calls.contains(.turn("192.0.2.1 3478")) == hasIPv4)
        #expect(calls.contains(.turn("2001:db8::1 3478")) == hasIPv6)
        let warnings = calls.count { if case .warning(let text) = $0 { text.contains("family") } else { false } }
        #expect(warnings == (hasIPv4 && hasIPv6 ? 0 : 1))
    }

    /// A server that is not ready in time is added later; gathering host candidates does not wait for it.
    @Test
    func gatheringDoesNotWaitForATunnel() async throws {
        let fixture = Fixture()
        try fixture.start(["turns:u:p@192.0.2.1"])
        #expect(await fixture.calls.first { $0 == .begin } == .begin)
        #expect(fixture.calls.elements == [.tunnel, .begin])
        let server = try ICEServer(url: "turns:u:p@192.0.2.1")
        NetworkThread.shared.sync { fixture.setup.tunnelSettled(server, port: 4711) }
        #expect(fixture.calls.elements == [.tunnel, .begin, .turn("127.0.0.1 4711"), .finish])
    }

    /// Cancels during a name lookup, while a tunnel opens, and before the head start's timer fires.
    @Test
    func nothingIsCalledAfterCancel() async throws {
        let fixture = Fixture()
        let server = try ICEServer(url: "turns:u:p@192.0.2.1")
        let name = try ICEServer(url: "stun:localhost")
        NetworkThread.shared.sync {
            fixture.setup.start([server, name])
            fixture.setup.cancel()
            fixture.setup.tunnelSettled(server, port: 4711)
        }
        #expect(await fixture.outlastTheHeadStart())
        #expect(fixture.calls.elements == [.tunnel])
    }
}
