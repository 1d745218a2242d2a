import EventLoopThreads
import ICE
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(1)), .enabled(if: TurnServer.isInstalled, "coturn is not installed"))
struct TurnTests {
    /// Both peers may use relay candidates only.
    @Test(arguments: ["udp", "tcp"])
    func relayOnly(over transport: String) async throws {
        let turn = try TurnServer()
        let left = try TestPeer(controlling: true, servers: [turn.server(transport)], policy: .relay)
        let right = try TestPeer(controlling: false, servers: [turn.server(transport)], policy: .relay)
        #expect(await TestPeer.connect(left, right))
        #expect(!left.candidates.isEmpty)
        for candidate in left.candidates + right.candidates { #expect(candidate.contains("typ relay")) }
        let pair = try #require(left.agent.selectedPair)
        #expect(pair.isRelayed)
        #expect(pair.local.type == "relay")
        #expect(pair.local.address.hasPrefix("127.0.0.1:"))
        let media = [UInt8](repeating: 0x80, count: 1_200)
        #expect(left.send(media))
        #expect(right.send([0x81]))
        #expect(await right.receives(media))
        #expect(await left.receives([0x81]))
        // What is sent last arrives, as a DTLS alert.
        let last: [UInt8] = [21, 1, 2]
        #expect(left.send(last))
        await TestPeer.release(left)
        #expect(await right.receives(last))
        await TestPeer.release(right)
    }

    /// A room says that relays are forced after candidates of other kinds have left, and the remote peer has checked these.
    @Test
    func relayOnlyAfterChecksHaveCome() async throws {
        let turn = try TurnServer()
        let (left, right) = (try TestPeer(controlling: true), try TestPeer(controlling: false))
        left.agent.gatherCandidates(awaitsServers: true)
        #expect(await right.gather())
        #expect(await left.events.first { if case .localCandidate = $0 { true } else { false } } != nil)
        right.learnCredentials(of: left)
        for candidate in left.candidates { right.agent.addRemoteCandidate(candidate) }
        #expect(await right.state(.checking))
        // Nothing shows that a check has come. If none has, the rest holds as well.
        try await Task.sleep(for: .milliseconds(300))
        left.agent.addServers([try turn.server("udp")], relayOnly: true)
        left.learnCredentials(of: right)
        for candidate in right.candidates { left.agent.addRemoteCandidate(candidate) }
        #expect(await left.gathered())
        for candidate in left.candidates where candidate.contains("typ relay") {
            right.agent.addRemoteCandidate(candidate)
        }
        left.agent.endOfRemoteCandidates()
        right.agent.endOfRemoteCandidates()
        #expect(await left.state(.ready))
        #expect(left.agent.selectedPair?.isRelayed == true)
        #expect(left.send([0x80]))
        #expect(await right.receives([0x80]))
        // Both have chosen the same path; the controlled peer a little later, with libnice 0.1.22.
        #expect(await right.state(.ready))
        #expect(right.send([0x81]))
        #expect(await left.receives([0x81]))
        await TestPeer.release(left, right)
    }

    /// One peer uses relay candidates only, the other has no relay.
    @Test
    func relayAgainstHost() async throws {
        let turn = try TurnServer()
        let left = try TestPeer(controlling: true, servers: [turn.server("udp")], policy: .relay)
        let right = try TestPeer(controlling: false)
        #expect(await TestPeer.connect(left, right))
        #expect(left.agent.selectedPair?.isRelayed == true)
        await TestPeer.release(left, right)
    }

    @Test
    func wrongCredentialGivesNoRelay() async throws {
        let turn = try TurnServer()
        let server = try ICEServer(url: "turn://test:wrong@127.0.0.1:\(turn.port)")
        let peer = try TestPeer(controlling: true, servers: [server], policy: .relay)
        #expect(await peer.gather())
        #expect(peer.candidates.isEmpty)
        await TestPeer.release(peer)
    }

    @Test
    func serversByName() async throws {
        let turn = try TurnServer()
        let peer = try TestPeer(
            controlling: true,
            servers: [
                ICEServer(url: "stun:localhost:\(turn.port)"),
                ICEServer(url: "turn://test:pass@localhost:\(turn.port)"),
            ], policy: .relay)
        #expect(await peer.gather())
        // localhost may resolve to ::1 first, where this coturn does not listen.
        #expect(peer.warnings.isEmpty)
        await TestPeer.release(peer)
    }

    /// The TURN server stops answering after it has allocated a relay address: closing still ends soon.
    @Test(arguments: ["udp", "tcp"])
    func closingWithASilentServer(over transport: String) async throws {
        let turn = try TurnServer()
        let peer = try TestPeer(controlling: true, servers: [turn.server(transport)], policy: .relay)
        #expect(await peer.gather())
        #expect(!peer.candidates.isEmpty)
        turn.freeze()
        await TestPeer.release(peer)
    }
}

@Suite(.timeLimit(.minutes(1)))
struct TurnWithoutServerTests {
    @Test
    func turnsIsSkippedWithAWarningAndNeverContacted() async throws {
        let datagrams = try LoopbackSocket()
        let connections = try LoopbackSocket(stream: true)
        let servers = [
            try ICEServer(url: "turns://canaryuser:canarypass@127.0.0.1:\(datagrams.port)?transport=udp"),
            try ICEServer(url: "turns://canaryuser:canarypass@127.0.0.1:\(connections.port)"),
        ]
        let peer = try TestPeer(controlling: true, servers: servers)
        #expect(await peer.gather())
        let warnings = peer.warnings
        #expect(warnings.count == 2)
        for warning in warnings {
            #expect(warning.contains("turns://"))
            #expect(!warning.contains("canary"))
        }
        #expect(!datagrams.hasReceived())
        #expect(!connections.hasReceived())
        peer.agent.close()
    }

    /// If a server never answers, host candidates come at once, the end of candidates within its timeout, and closing
    /// does not wait for the server.
    @Test(arguments: ["stun:127.0.0.1:", "turn://u:p@127.0.0.1:"])
    func silentServer(url: String) async throws {
        let hole = try LoopbackSocket()
        let peer = try TestPeer(controlling: true, servers: [ICEServer(url: "\(url)\(hole.port)")])
        let start = ContinuousClock.now
        peer.agent.gatherCandidates()
        #expect(await peer.events.first { if case .localCandidate = $0 { true } else { false } } != nil)
        measure("time to the first host candidate", ContinuousClock.now - start, atMost: .seconds(1))
        #expect(await peer.gathered())
        measure("time to the end of candidates", ContinuousClock.now - start, atMost: .seconds(11))
        // The host candidate did not wait for the server.
        let kinds = peer.events.elements.compactMap { event -> Bool? in
            switch event {
            case .localCandidate: false
            case .gatheringComplete: true
            default: nil
            }
        }
        #expect(kinds.first == false && kinds.last == true)
        #expect(hole.hasReceived())
        await TestPeer.release(peer)
    }

    /// A label longer than 63 bytes cannot resolve, and no query is sent for it (RFC 1035 2.3.4).
    @Test
    func unknownHostNamesAreNamedAndDoNotStopGathering() async throws {
        let name = String(repeating: "a", count: 64) + ".invalid"
        let peer = try TestPeer(
            controlling: true,
            servers: [ICEServer(url: "stun:\(name)"), ICEServer(url: "turn://canary:canary@\(name)")])
        #expect(await peer.gather())
        #expect(!peer.candidates.isEmpty)
        let warnings = peer.warnings
        #expect(warnings.count == 2)
        #expect(warnings.allSatisfy { $0.contains("cannot be resolved") && !$0.contains("canary") })
        peer.agent.close()
    }

    @Test
    func closingDuringALookUp() async throws {
        let peer = try TestPeer(controlling: true, servers: [ICEServer(url: "stun:localhost:9")])
        let released = EventLog<Bool>()
        // Both run in one turn of the network thread. It also handles the lookup's result, so that cannot come between.
        NetworkThread.shared.sync {
            peer.agent.gatherCandidates()
            NetworkThread.shared.async { peer.agent.close { released.append(true) } }
        }
        #expect(await released.first { $0 } == true)
        #expect(peer.candidates.isEmpty)
    }
}
