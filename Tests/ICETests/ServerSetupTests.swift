import EventLoopThreads
import ICE
import TestSupport
import Testing

/// Tests which servers are passed to libnice, in which form and when. Runs without libnice.
@Suite(.timeLimit(.minutes(1)))
struct ServerSetupTests {
    /// A setup and its actions, in order.
    private struct Fixture: Sendable {
        let setup: ServerSetup
        let actions = EventLog<ServerSetup.Action>()

        init(hasIPv4: Bool = true, hasIPv6: Bool = true, permits: @escaping (String) -> Bool = { _ in true }) {
            setup = ServerSetup(
                network: .shared, hasIPv4: hasIPv4, hasIPv6: hasIPv6, opensTunnels: true, permits: permits
            ) { [actions] in actions.append($0) }
        }

        func start(_ servers: [ICEServer], awaitsMore: Bool = false) {
            NetworkThread.shared.sync { setup.start(servers, awaitsMore: awaitsMore) }
        }

        func add(_ servers: [ICEServer]) { NetworkThread.shared.sync { setup.add(servers) } }

        var warnings: [String] { actions.elements.compactMap { if case .warn(let text) = $0 { text } else { nil } } }
    }

    @Test
    func aNinthTurnServerIsSkipped() throws {
        let fixture = Fixture()
        let servers = try (1...9).map { try ICEServer(url: "turn://user:canary@192.0.2.\($0):3478") }
        fixture.start(servers)
        let actions = fixture.actions.elements
        #expect(Array(actions.prefix(8)) == servers.prefix(8).map { .addTURN($0, address: $0.host, port: 3478) })
        let warnings = fixture.warnings
        #expect(warnings.count == 1 && actions.count == 11, "\(warnings)")
        #expect(warnings.allSatisfy { $0.contains("8 TURN") && !$0.contains("192.0.2") && !$0.contains("canary") })
        #expect(actions.suffix(2) == [.begin, .finish])
    }

    @Test(arguments: [(true, true), (true, false), (false, true)])
    func serversOfAFamilyThatTheHostHasNotAreSkipped(hasIPv4: Bool, hasIPv6: Bool) throws {
        let fixture = Fixture(hasIPv4: hasIPv4, hasIPv6: hasIPv6)
        let v4 = try ICEServer(url: "turn://u:p@192.0.2.1:3478")
        let v6 = try ICEServer(url: "turn://u:p@[2001:db8::1]:3478")
        fixture.start([v4, v6])
        let actions = fixture.actions.elements
        #expect(actions.contains(.addTURN(v4, address: "192.0.2.1", port: 3478)) == hasIPv4)
        #expect(actions.contains(.addTURN(v6, address: "2001:db8::1", port: 3478)) == hasIPv6)
        #expect(fixture.warnings.count { $0.contains("family") } == (hasIPv4 && hasIPv6 ? 0 : 1))
    }

    /// Of a peer's servers, no address may be here, also if a name leads to it; the user's may.
    @Test(arguments: ["turn:127.0.0.1", "turn:localhost", "stun:localhost"])
    func aPeerNamesNoServerOfThisMachine(url: String) async throws {
        for isNamedByPeer in [true, false] {
            let fixture = Fixture { !$0.hasPrefix("127.") && $0 != "::1" }
            var server = try ICEServer(url: url, username: "u", credential: "canary")
            server.isNamedByPeer = isNamedByPeer
            fixture.start([server])
            #expect(await fixture.actions.first { $0 == .finish } == .finish)
            let added = fixture.actions.elements.count {
                switch $0 {
                case .addTURN, .setSTUN: true
                default: false
                }
            }
            #expect(added == (isNamedByPeer ? 0 : 1))
            #expect(fixture.warnings.count == (isNamedByPeer ? 1 : 0), "\(fixture.warnings)")
            #expect(fixture.warnings.allSatisfy { $0.contains("this machine") && !$0.contains("127.") })
        }
    }

    /// A server that is not ready in time is added later; gathering host candidates does not wait for it.
    @Test
    func gatheringDoesNotWaitForATunnel() async throws {
        let fixture = Fixture()
        let server = try ICEServer(url: "turns:u:p@192.0.2.1")
        fixture.start([server])
        #expect(await fixture.actions.first { $0 == .begin } == .begin)
        #expect(fixture.actions.elements == [.openTunnel(server, address: "127.0.0.1"), .begin])
        NetworkThread.shared.sync { fixture.setup.tunnelSettled(server, port: 4711) }
        #expect(fixture.actions.elements.dropFirst(2) == [.addTURN(server, address: "127.0.0.1", port: 4711), .finish])
    }

    /// libnice reaches a tunnel only at an address of a family that this host has.
    @Test(arguments: ["turns:u:p@192.0.2.1", "turn:u:p@[2001:db8::1]:3478?transport=tcp"])
    func aHostWithoutIPv4HasTunnelsToo(url: String) throws {
        let fixture = Fixture(hasIPv4: false)
        let server = try ICEServer(url: url)
        fixture.start([server])
        #expect(fixture.actions.elements.first == .openTunnel(server, address: "::1"))
        NetworkThread.shared.sync { fixture.setup.tunnelSettled(server, port: 4711) }
        #expect(fixture.actions.elements.contains(.addTURN(server, address: "::1", port: 4711)))
    }

    /// Gathering begins with the first servers, and ends behind the last ones.
    @Test(arguments: [true, false])
    func furtherServersFollow(hasMore: Bool) throws {
        let fixture = Fixture()
        let stun = try ICEServer(url: "stun:192.0.2.1")
        let turn = try ICEServer(url: "turn://u:p@192.0.2.2:3478")
        fixture.start([stun], awaitsMore: true)
        #expect(fixture.actions.elements == [.setSTUN(host: "192.0.2.1", port: 3478), .begin])
        fixture.add(hasMore ? [turn] : [])
        let added = hasMore ? [ServerSetup.Action.addTURN(turn, address: "192.0.2.2", port: 3478)] : []
        #expect(fixture.actions.elements.dropFirst(2) == (added + [.finish])[...])
        // Only the first call counts.
        fixture.add([turn])
        #expect(fixture.actions.elements.count == added.count + 3)
    }

    /// Further servers are known before the first ones are ready.
    @Test
    func furtherServersComeFirst() throws {
        let fixture = Fixture()
        let tunnelled = try ICEServer(url: "turns:u:p@192.0.2.1")
        fixture.start([tunnelled], awaitsMore: true)
        fixture.add([])
        #expect(fixture.actions.elements == [.openTunnel(tunnelled, address: "127.0.0.1")])
        NetworkThread.shared.sync { fixture.setup.tunnelSettled(tunnelled, port: nil) }
        #expect(fixture.actions.elements.dropFirst() == [.begin, .finish])
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
        // Twice the time that gathering waits for names and tunnels: timers due before have fired then.
        await pause(ServerSetup.headStart * 2)
        #expect(fixture.actions.elements == [.openTunnel(server, address: "127.0.0.1")])
    }
}
