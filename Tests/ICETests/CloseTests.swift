import EventLoopThreads
import Glibc
import ICE
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1)))
struct CloseTests {
    @Test
    func closingAtAnyMomentReleasesEverything() async throws {
        var sockets: Set<String> = []
        let released = EventLog<Int>()
        // Milliseconds; nil: when all candidates are there.
        let delays: [Int?] = [0, 1, 5, nil]
        for cycle in 0..<50 {
            let left = try TestPeer(controlling: true)
            let right = try TestPeer(controlling: false)
            left.learnCredentials(of: right)
            right.learnCredentials(of: left)
            left.agent.gatherCandidates()
            right.agent.gatherCandidates()
            let delay = delays[cycle % delays.count]
            if let delay {
                if delay > 0 { await pause(.milliseconds(delay)) }
            } else {
                #expect(await left.gathered())
                #expect(await right.gathered())
            }
            if delay != 0 {
                for candidate in left.candidates { right.agent.addRemoteCandidate(candidate) }
                for candidate in right.candidates { left.agent.addRemoteCandidate(candidate) }
            }
            sockets.formUnion(Self.sockets(of: left, right))
            left.agent.close { released.append(2 * cycle) }
            right.agent.close { released.append(2 * cycle + 1) }
            let silentFrom = (left.events.elements.count, right.events.elements.count)
            #expect(!left.send([128, 0]))
            // Returns after everything that was queued on the network thread has run.
            NetworkThread.shared.sync {}
            #expect(left.events.elements.count - silentFrom.0 <= 1)
            #expect(right.events.elements.count - silentFrom.1 <= 1)
            let wanted = 2 * cycle
            #expect(await released.first { $0 == wanted } == wanted, "cycle \(cycle)")
            #expect(await released.first { $0 == wanted + 1 } == wanted + 1, "cycle \(cycle)")
        }
        // Two agents, in each cycle that waits for their candidates.
        #expect(sockets.count >= 24)
        // The sockets close a moment after their agent is released.
        var left = sockets
        for _ in 0..<400 {
            left = sockets.intersection(Self.udpSockets().map(\.inode))
            if left.isEmpty { break }
            await pause(.milliseconds(50))
        }
        #expect(left.isEmpty)
    }

    @Test
    func droppingAnAgentClosesIt() async throws {
        let gone = EventLog<Bool>()
        final class OnDeinit: Sendable {
            let gone: EventLog<Bool>
            init(_ gone: EventLog<Bool>) { self.gone = gone }
            deinit { gone.append(true) }
        }
        do {
            let guardian = OnDeinit(gone)
            let agent = try ICEAgent(
                configuration: ICEConfiguration(isControlling: true),
                onEvent: { _ in withExtendedLifetime(guardian) {} }, onDatagram: { _ in })
            agent.gatherCandidates()
        }
        #expect(await gone.first { $0 } == true)
    }

    @Test
    func closingTwiceAndUsingAfterwardsIsHarmless() async throws {
        let peer = try TestPeer(controlling: true)
        let released = EventLog<Bool>()
        peer.agent.close { released.append(true) }
        peer.agent.close { released.append(false) }
        peer.agent.gatherCandidates()
        peer.agent.setRemoteCredentials(usernameFragment: "abcd", password: String(repeating: "p", count: 22))
        peer.agent.addRemoteCandidate("candidate:1 1 udp 1 127.0.0.1 9 typ host")
        peer.agent.endOfRemoteCandidates()
        #expect(!peer.send([128]))
        #expect(await released.first { $0 } == true)
        NetworkThread.shared.sync {}
        #expect(peer.events.elements.isEmpty)
        #expect(released.elements == [true])
    }

    /// Closes in a callback, on the network thread itself.
    @Test
    func closingInsideACallback() async throws {
        let released = EventLog<Bool>()
        let holder = EventLog<ICEAgent>()
        let agent = try ICEAgent(
            configuration: ICEConfiguration(isControlling: true),
            onEvent: { _ in holder.elements.first?.close { released.append(true) } }, onDatagram: { _ in })
        holder.append(agent)
        agent.gatherCandidates()
        #expect(await released.first { $0 } == true)
    }

    /// Several threads send while another one closes the agent.
    @Test
    func closingWhileOthersSend() async throws {
        for _ in 0..<5 {
            let left = try TestPeer(controlling: true)
            let right = try TestPeer(controlling: false)
            #expect(await TestPeer.connect(left, right))
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    group.addTask { for _ in 0..<2_000 { _ = left.send([128, 1, 2, 3]) } }
                }
                group.addTask { left.agent.close() }
            }
            #expect(!left.send([128]))
            right.agent.close()
        }
    }

    /// Inodes of the UDP sockets behind these peers' loopback candidates.
    private static func sockets(of peers: TestPeer...) -> Set<String> {
        var wanted: Set<String> = []
        for candidate in peers.flatMap(\.candidates) {
            let fields = candidate.split(separator: " ")
            guard fields.count > 5, let address = loopbackInHex["\(fields[4])"] else { continue }
            wanted.insert("\(address):\(fields[5])")
        }
        return Set(udpSockets().filter { wanted.contains($0.address) }.map(\.inode))
    }

    /// Loopback addresses as /proc/net/udp writes them.
    private static let loopbackInHex = [
        "127.0.0.1": "0100007F", "::1": "00000000000000000000000001000000",
    ]

    private static func udpSockets() -> [(address: String, inode: String)] {
        var sockets: [(String, String)] = []
        for table in ["/proc/net/udp", "/proc/net/udp6"] {
            guard let file = fopen(table, "r") else { continue }
            defer { fclose(file) }
            var line = [CChar](repeating: 0, count: 512)
            while fgets(&line, Int32(line.count), file) != nil {
                let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                let fields = text.split(separator: " ")
                guard fields.count > 9 else { continue }
                let local = fields[1].split(separator: ":")
                guard local.count == 2, let port = UInt16(local[1], radix: 16) else { continue }
                sockets.append(("\(local[0]):\(port)", String(fields[9])))
            }
        }
        return sockets
    }
}
