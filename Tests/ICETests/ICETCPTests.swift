import ICE
import TestSupport
import Testing

/// ICE-TCP (RFC 6544): one agent offers passive candidates as a LiveKit server does, the other connects.
@Suite(.timeLimit(.minutes(1)))
struct ICETCPTests {
    /// The agent that connects signals no candidate for TCP, so the other one learns its address from the check.
    private func connect(_ left: TestPeer, _ right: TestPeer, _ offered: ([String]) -> [String]) async -> Bool {
        guard await TestPeer.gather(left, right) else { return false }
        left.learnCredentials(of: right)
        right.learnCredentials(of: left)
        for candidate in offered(right.candidates) { left.agent.addRemoteCandidate(candidate) }
        left.agent.endOfRemoteCandidates()
        return true
    }

    private func peers(controlling: Bool, headStart: Duration = .zero) throws -> (TestPeer, TestPeer) {
        let local = ICENetwork(endpoint: .address("127.0.0.1"))
        var listening = local
        listening.listensForTCP = true
        return (
            try TestPeer(controlling: controlling, local: local, tcpHeadStart: headStart),
            try TestPeer(controlling: !controlling, local: listening)
        )
    }

    private static func isPassive(_ candidate: String) -> Bool { candidate.hasSuffix("tcptype passive") }

    @Test(arguments: [true, false])
    func dataFlowBothWays(controlling: Bool) async throws {
        let (left, right) = try peers(controlling: controlling)
        defer { TestPeer.close(left, right) }
        #expect(await connect(left, right) { $0.filter(Self.isPassive) })
        #expect(await left.state(.ready))
        #expect(await right.state(.ready))
        for peer in [left, right] {
            let pair = try #require(peer.agent.selectedPair)
            #expect(pair.transport == "tcp")
            #expect(!pair.isRelayed)
            #expect(peer.agent.batches.calls == 0)
        }
        #expect(!left.candidates.contains { $0.contains("tcptype") })
        // Each frame (RFC 4571) arrives as it was sent.
        for size in [1, 2, 255, 256, 1180, 1400] {
            let datagrams = [UInt8(22), 0x80].map { [UInt8](repeating: $0, count: size) }
            for datagram in datagrams {
                #expect(left.send(datagram))
                #expect(await right.receives(datagram))
                #expect(right.send(datagram))
                #expect(await left.receives(datagram))
            }
        }
        #expect(left.datagrams.elements == right.datagrams.elements)
    }

    /// libnice sends from the network thread, also if it must queue; what does not fit is lost as a whole.
    @Test func moreThanFits() async throws {
        let (left, right) = try peers(controlling: true)
        defer { TestPeer.close(left, right) }
        #expect(await connect(left, right) { $0.filter(Self.isPassive) })
        #expect(await left.state(.ready))
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    let datagram = [UInt8](repeating: 0x80 + UInt8(thread), count: 1200)
                    for _ in 0..<2000 { _ = left.send(datagram) }
                }
            }
        }
        let last: [UInt8] = [22]
        var hasArrived = false
        for _ in 0..<100 where !hasArrived {
            _ = left.send(last)
            hasArrived = await right.receives(last, within: .milliseconds(100))
        }
        #expect(hasArrived)
        let received = right.datagrams.elements.filter { $0 != last }
        #expect(!received.isEmpty)
        #expect(received.allSatisfy { $0.count == 1200 && Set($0).count == 1 })
    }

    @Test func udpIsFirst() async throws {
        let (left, right) = try peers(controlling: true, headStart: .seconds(2))
        defer { TestPeer.close(left, right) }
        #expect(await TestPeer.connect(left, right))
        #expect(right.candidates.contains(where: Self.isPassive))
        #expect(left.agent.selectedPair?.transport == "udp")
        #expect(right.agent.selectedPair?.transport == "udp")
    }

    /// A candidate whose port is closed gives way to the next one.
    @Test func theNextCandidate() async throws {
        let (left, right) = try peers(controlling: false)
        defer { TestPeer.close(left, right) }
        let dead = "candidate:9 1 tcp 2000000000 127.0.0.1 1 typ host tcptype passive"
        #expect(await connect(left, right) { [dead] + $0.filter(Self.isPassive) })
        #expect(await left.state(.ready))
        #expect(left.agent.selectedPair?.transport == "tcp")
    }

    /// The failure of UDP is final when TCP has failed too.
    @Test func noPath() async throws {
        let local = ICENetwork(endpoint: .address("127.0.0.1"))
        let left = try TestPeer(controlling: true, local: local, checkRetransmissions: 1, tcpHeadStart: .seconds(3))
        let right = try TestPeer(controlling: false)
        defer { TestPeer.close(left, right) }
        _ = await connect(left, right) { _ in
            ["udp 9 127.0.0.1 9 typ host", "tcp 1 127.0.0.1 1 typ host tcptype passive"].map { "candidate:1 1 \($0)" }
        }
        // UDP fails within a second.
        #expect(!(await left.state(.failed, within: .seconds(2))))
        #expect(await left.state(.failed))
        #expect(left.agent.selectedPair == nil)
    }

    /// As a DTLS alert.
    @Test func whatWasSentLastArrives() async throws {
        let (left, right) = try peers(controlling: true)
        defer { TestPeer.close(left, right) }
        #expect(await connect(left, right) { $0.filter(Self.isPassive) })
        #expect(await left.state(.ready))
        #expect(await right.state(.ready))
        let last: [UInt8] = [21, 1, 2]
        #expect(left.send(last))
        left.agent.close()
        #expect(await right.receives(last))
    }

    @Test func aClosedConnection() async throws {
        let (left, right) = try peers(controlling: true)
        defer { TestPeer.close(left) }
        #expect(await connect(left, right) { $0.filter(Self.isPassive) })
        #expect(await left.state(.ready))
        #expect(await left.events.first { if case .consentConfirmed = $0 { true } else { false } } != nil)
        right.agent.close()
        #expect(await left.state(.failed))
        #expect(left.events.elements.last == .stateChanged(.failed))
    }

    @Test func notWithARelayOnly() async throws {
        let local = ICENetwork(endpoint: .address("127.0.0.1"))
        let left = try TestPeer(controlling: true, policy: .relay, local: local, tcpHeadStart: .zero)
        let right = try peers(controlling: true).1
        defer { TestPeer.close(left, right) }
        #expect(await connect(left, right) { $0.filter(Self.isPassive) })
        #expect(!(await right.state(.connected, within: .seconds(1))))
    }
}
