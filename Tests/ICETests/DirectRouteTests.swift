import ICE
import TestSupport
import Testing

/// The way around libnice: batches out through the selected pair's socket, and media in.
@Suite(.timeLimit(.minutes(1)))
struct DirectRouteTests {
    private func connected() async throws -> (TestPeer, TestPeer) {
        let (left, right) = (try TestPeer(controlling: true), try TestPeer(controlling: false))
        try #require(await TestPeer.connect(left, right))
        return (left, right)
    }

    /// Returns the indices of the datagrams that were sent.
    private func send(_ sizes: [Int], first: UInt8 = 0x80, from peer: TestPeer) -> [Int] {
        let memory = sizes.enumerated().map { number, size in
            let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 1)
            for index in 0..<size { bytes[index] = index == 0 ? first : UInt8(truncatingIfNeeded: number) }
            return bytes
        }
        defer { for bytes in memory { bytes.deallocate() } }
        var sent: [Int] = []
        peer.agent.send(memory.map { UnsafeRawBufferPointer($0) }) { sent.append($0) }
        return sent
    }

    /// System calls with several datagrams, and these datagrams.
    private func batches(of peer: TestPeer) -> [Int] { [peer.agent.batches.calls, peer.agent.batches.datagrams] }

    private func sizes(at peer: TestPeer, count: Int) async -> [Int] {
        _ = await peer.datagrams.reaches(count: count)
        return peer.datagrams.elements.map(\.count)
    }

    @Test func datagramsLeaveTogether() async throws {
        let (left, right) = try await connected()
        let frame = [Int](repeating: 1180, count: 8) + [410]
        #expect(send(frame, from: left) == Array(0..<9))
        #expect(await sizes(at: right, count: 9) == frame)
        #expect(right.datagrams.elements.map { $0[1] } == Array(0..<9))
        #expect(batches(of: left) == [1, 9])
        // One alone is no batch; sixteen is the limit.
        _ = send([500, 600, 600], from: left)
        #expect(batches(of: left) == [2, 12])
        _ = send([500], from: left)
        #expect(batches(of: left) == [2, 12])
        _ = send([Int](repeating: 700, count: 20), from: left)
        #expect(batches(of: left) == [4, 32])
        #expect(await sizes(at: right, count: 33).count == 33)
        TestPeer.close(left, right)
        #expect(send(frame, from: left).isEmpty)
    }

    /// A datagram has 64 KiB at most.
    @Test func refusedDatagramDoesNotBlockOthers() async throws {
        let (left, right) = try await connected()
        #expect(send([700, 70_000, 800, 900], from: left) == [0, 2, 3])
        #expect(await sizes(at: right, count: 3) == [700, 800, 900])
        #expect(send([70_000], from: left).isEmpty)
        TestPeer.close(left, right)
    }

    /// SRTP goes by the short cut, DTLS and STUN by way of libnice; the order stays, and consent checks are answered.
    @Test func mediaAndOthersArriveInOrder() async throws {
        let (left, right) = try await connected()
        var expected: [UInt8] = []
        for round in 0..<40 {
            let first: UInt8 = round % 3 == 0 ? 22 : 0x80
            #expect(send([200, 200, 100], first: first, from: left).count == 3)
            expected += [first, first, first]
            if round % 10 == 5 { right.agent.checkConsent() }
        }
        #expect(await sizes(at: right, count: 120).count == 120)
        #expect(right.datagrams.elements.map { $0[0] } == expected)
        for _ in 0..<10 where !right.events.elements.contains(where: { $0.roundTrip != nil }) {
            right.agent.checkConsent()
            _ = send([200, 200], from: left)
            _ = await right.events.first(within: .seconds(2)) { $0.roundTrip != nil }
        }
        #expect(right.events.elements.contains { $0.roundTrip != nil })
        TestPeer.close(left, right)
    }
}
