import Dispatch
import ICE
import Testing

@Suite(.timeLimit(.minutes(1)))
struct DeadPeerTests {
    /// The peer's thread stops while its sockets stay open: only silence tells.
    @Test
    func silenceIsNoticed() async throws {
        let other = NetworkThread(name: "frozen-peer")
        let left = try TestPeer(controlling: true)
        let right = try TestPeer(controlling: false, network: other)
        #expect(await TestPeer.connect(left, right))
        let thaw = DispatchSemaphore(value: 0)
        other.async { thaw.wait() }
        let clock = ContinuousClock()
        let start = clock.now
        #expect(await left.state(.failed, within: .seconds(15)))
        print("silence noticed after", clock.now - start)
        thaw.signal()
        left.agent.close()
        right.agent.close()
    }

    /// The peer closes: its ports answer "unreachable".
    @Test
    func aClosedPeerIsNoticed() async throws {
        let left = try TestPeer(controlling: true)
        let right = try TestPeer(controlling: false)
        #expect(await TestPeer.connect(left, right))
        right.agent.close()
        #expect(await left.state(.failed, within: .seconds(15)))
        left.agent.close()
    }
}
