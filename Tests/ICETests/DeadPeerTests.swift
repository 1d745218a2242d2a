import Dispatch
import EventLoopThreads
import ICE
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1)))
struct DeadPeerTests {
    /// A peer answers consent checks, and one whose thread stops while its sockets stay open does not. The owner of the
    /// agent judges: libnice itself gives up nothing.
    @Test
    func consentIsConfirmedByALivingPeer() async throws {
        let other = NetworkThread(name: "frozen-peer")
        let left = try TestPeer(controlling: true)
        let right = try TestPeer(controlling: false, network: other)
        #expect(await TestPeer.connect(left, right))
        #expect(await confirmsConsent(left))
        #expect(await confirmsConsent(right))
        #expect(left.datagrams.elements.isEmpty && right.datagrams.elements.isEmpty)
        let before = left.events.elements.count { $0.roundTrip != nil }
        var thaw = await freeze(other)
        left.agent.checkConsent()
        #expect(await left.events.first(within: .seconds(1)) { $0 == .stateChanged(.failed) } == nil)
        #expect(left.events.elements.count { $0.roundTrip != nil } == before)
        thaw.signal()
        // The answer after the thaw says how long it took.
        @Sendable func isSlow(_ event: ICEEvent) -> Bool { event.roundTrip.map { $0 >= .milliseconds(200) } ?? false }
        for _ in 1...10 {
            if await left.events.first(within: .seconds(2), where: isSlow) != nil { break }
            thaw = await freeze(other)
            left.agent.checkConsent()
            _ = await left.events.first(within: .milliseconds(300)) { $0 == .stateChanged(.failed) }
            thaw.signal()
        }
        #expect(left.events.elements.contains(where: isSlow))
        TestPeer.close(left, right)
    }

    /// Blocks the thread until the semaphore is signalled.
    private func freeze(_ thread: NetworkThread) async -> DispatchSemaphore {
        let thaw = DispatchSemaphore(value: 0)
        await withCheckedContinuation { frozen in
            thread.async {
                frozen.resume()
                thaw.wait()
            }
        }
        return thaw
    }

    /// Repeats the check, as the owner of an agent does: libnice drops a response that it reads together with a datagram
    /// that arrived before the check.
    private func confirmsConsent(_ peer: TestPeer) async -> Bool {
        for _ in 1...10 {
            peer.agent.checkConsent()
            if await peer.events.first(within: .seconds(2), where: { $0.roundTrip != nil }) != nil { return true }
        }
        return false
    }
}
