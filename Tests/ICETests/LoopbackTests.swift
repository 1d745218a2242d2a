import EventLoopThreads
import ICE
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1)))
struct LoopbackTests {
    @Test(arguments: ["127.0.0.1", "::1"])
    func twoAgentsConnect(over address: String) async throws {
        let (left, right) = try peers()
        defer { TestPeer.close(left, right) }
        #expect(await TestPeer.connect(left, right) { $0.contains(" \(address) ") })
        #expect(left.send([20, 1, 2, 3]))
        #expect(right.send([128, 9]))
        #expect(await right.receives([20, 1, 2, 3]))
        #expect(await left.receives([128, 9]))
        let pair = try #require(left.agent.selectedPair)
        #expect(pair.remote.address.contains(address))
        #expect(!pair.isRelayed)
        #expect(pair.transport == "udp")
    }

    @Test
    func candidatesBeforeCredentialsAreKeptInOrder() async throws {
        let (left, right) = try peers()
        defer { TestPeer.close(left, right) }
        #expect(await TestPeer.gather(left, right))
        for candidate in right.candidates { left.agent.addRemoteCandidate("a=\(candidate)\r\n") }
        left.agent.endOfRemoteCandidates()
        for candidate in left.candidates { right.agent.addRemoteCandidate(candidate) }
        right.agent.endOfRemoteCandidates()
        left.learnCredentials(of: right)
        right.learnCredentials(of: left)
        #expect(await left.state(.ready))
        #expect(await right.state(.ready))
        #expect(left.agent.counters.candidatesAccepted == right.candidates.count)
    }

    @Test
    func trickleWhileGathering() async throws {
        let (left, right) = try peers()
        defer { TestPeer.close(left, right) }
        left.learnCredentials(of: right)
        right.learnCredentials(of: left)
        #expect(await left.gather())
        for candidate in left.candidates { right.agent.addRemoteCandidate(candidate) }
        #expect(await right.gather())
        for candidate in right.candidates { left.agent.addRemoteCandidate(candidate) }
        #expect(await left.state(.connected))
        #expect(await right.state(.connected))
    }

    @Test
    func garbageAndMDNSAreCountedAndHarmless() async throws {
        let (left, right) = try peers()
        defer { TestPeer.close(left, right) }
        let junk = [
            "", "candidate:", "\u{0}", String(repeating: "x", count: 100_000),
            "candidate:1 1 udp 0 127.0.0.1 9 typ host", "candidate:1 1 udp 1 127.0.0.1 99999 typ host",
        ]
        for text in junk { left.agent.addRemoteCandidate(text) }
        left.agent.addRemoteCandidate("candidate:1 1 udp 99 3f6c.local 9 typ host")
        left.agent.addRemoteCandidate("candidate:1 2 udp 99 127.0.0.1 9 typ host")
        #expect(await TestPeer.connect(left, right))
        let counters = left.agent.counters
        #expect(counters.candidatesMalformed == junk.count)
        #expect(counters.candidatesMDNS == 1)
        #expect(counters.candidatesUnusable == 1)
    }

    @Test
    func remoteCandidatesAreBounded() async throws {
        let peer = try TestPeer(controlling: true)
        defer { peer.agent.close() }
        for port in 1...1_000 { peer.agent.addRemoteCandidate("candidate:1 1 udp 99 127.0.0.1 \(port) typ host") }
        let counters = NetworkThread.shared.sync { peer.agent.counters }
        #expect(counters.candidatesAccepted == 128)
        #expect(counters.candidatesBeyondLimit == 872)
    }

    @Test
    func badCredentialsFail() async throws {
        let peer = try TestPeer(controlling: true)
        defer { peer.agent.close() }
        peer.agent.setRemoteCredentials(usernameFragment: "a b\r\nc", password: "short")
        #expect(await peer.state(.failed))
        #expect(await peer.events.first { if case .warning = $0 { true } else { false } } != nil)
    }

    /// A peer with a wrong password does not connect.
    @Test
    func wrongPasswordDoesNotConnect() async throws {
        let (left, right) = try peers()
        defer { TestPeer.close(left, right) }
        #expect(await TestPeer.gather(left, right))
        left.agent.setRemoteCredentials(
            usernameFragment: right.agent.localUsernameFragment, password: String(repeating: "x", count: 24))
        right.agent.setRemoteCredentials(
            usernameFragment: left.agent.localUsernameFragment, password: String(repeating: "y", count: 24))
        for candidate in left.candidates { right.agent.addRemoteCandidate(candidate) }
        for candidate in right.candidates { left.agent.addRemoteCandidate(candidate) }
        #expect(!(await left.state(.connected, within: .seconds(1))))
        #expect(right.agent.selectedPair == nil)
        #expect(!left.send([128, 0]))
    }

    /// Without a remote peer the agent fails once, and only after the remote end of candidates. libnice itself reports
    /// failure as soon as its checks end, even if more candidates may come.
    @Test(arguments: [nil, "candidate:1 1 udp 99 127.0.0.1 9 typ host"])
    func failureIsFinalOnlyAfterTheRemoteEnd(candidate: String?) async throws {
        // libnice checks a pair for less than a second, and for 6 s with the default.
        let left = try TestPeer(controlling: true, checkRetransmissions: 1)
        let right = try TestPeer(controlling: false)
        defer { TestPeer.close(left, right) }
        #expect(await left.gather())
        left.learnCredentials(of: right)
        if let candidate { left.agent.addRemoteCandidate(candidate) }
        #expect(!(await left.state(.failed, within: .seconds(candidate == nil ? 1 : 3))))
        left.agent.endOfRemoteCandidates()
        left.agent.endOfRemoteCandidates()
        #expect(await left.state(.failed))
        #expect(left.events.elements.last == .stateChanged(.failed))
    }

    private func peers() throws -> (TestPeer, TestPeer) {
        (try TestPeer(controlling: true), try TestPeer(controlling: false))
    }

    /// Warnings reach the log at level WARNING: they may contain the user's host names, but no addresses.
    @Test
    func warningsNameNoAddresses() async throws {
        let addresses = ["192.0.2.7", "2001:db8::7"]
        let relays = try (0..<9).map {
            try ICEServer(url: "turn://u:canary@\(["192.0.2.7", "[2001:db8::7]"][$0 % 2]):9")
        }
        let others = ["stun://192.0.2.7:9", "stun://192.0.2.7:10", "turns://u:canary@192.0.2.7:9"].compactMap {
            try? ICEServer(url: $0)
        }
        let peer = try TestPeer(
            controlling: true, servers: relays + others + [ICEServer(url: "turns://u:canary@relay.invalid:9")])
        defer { peer.agent.close() }
        peer.agent.gatherCandidates()
        _ = await peer.gathered()
        #expect(peer.warnings.count >= 4, "\(peer.warnings)")
        for warning in peer.warnings {
            #expect(!(addresses + ["canary"]).contains { warning.contains($0) }, "\(warning)")
        }
        #expect(peer.warnings.contains { $0.contains("relay.invalid") })
    }
}
