import EventLoopThreads
import ICE
import TestSupport
import Testing

/// A network thread with the sockets of many agents, and with one that is never empty.
@Suite(.timeLimit(.minutes(1)))
struct NetworkThreadMediaTests {
    /// Many sockets of one thread, of which some are closed and opened again with the same numbers.
    @Test func aThreadServesManyConnections() async throws {
        let thread = NetworkThread(name: "many")
        func pair() async throws -> (left: TestPeer, right: TestPeer) {
            let left = try TestPeer(controlling: true, network: thread)
            let right = try TestPeer(controlling: false, network: thread)
            try #require(await TestPeer.connect(left, right))
            return (left, right)
        }
        func close(_ pairs: ArraySlice<(left: TestPeer, right: TestPeer)>) {
            for (left, right) in pairs { TestPeer.close(left, right) }
        }
        var pairs: [(left: TestPeer, right: TestPeer)] = []
        for _ in 0..<18 { try await pairs.append(pair()) }
        for round in 1...3 {
            close(pairs.prefix(4))
            pairs.removeFirst(4)
            for _ in 0..<4 { try await pairs.append(pair()) }
            for (index, (left, right)) in pairs.enumerated() {
                let bytes: [UInt8] = [0x80, UInt8(round), UInt8(index)]
                #expect(left.send(bytes) && right.send(bytes))
                #expect(await left.receives(bytes))
                #expect(await right.receives(bytes))
            }
        }
        close(pairs[...])
        thread.sync {}
    }

    /// Timers and queued work run while a socket is never empty.
    @Test func mediaFloodDelaysNeitherTimersNorWork() async throws {
        let (left, right) = (try TestPeer(controlling: true), try TestPeer(controlling: false))
        try #require(await TestPeer.connect(left, right))
        let other = NetworkThread(name: "flood")
        let log = EventLog<Int>()
        for _ in 0..<20 { other.async { for _ in 0..<50 { _ = left.send([UInt8](repeating: 0x80, count: 200)) } } }
        NetworkThread.shared.schedule(after: .milliseconds(20)) { log.append(1) }
        NetworkThread.shared.async { log.append(2) }
        #expect(await log.first { $0 == 1 } != nil)
        #expect(log.elements.contains(2))
        #expect(await right.datagrams.first { $0.count == 200 } != nil)
        TestPeer.close(left, right)
    }
}
