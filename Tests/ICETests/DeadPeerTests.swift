import Dispatch
import ICE
import Testing

@Suite(.timeLimit(.minutes(2)))
struct DeadPeerTests {
    /// The peer's thread stops while its sockets stay open. libnice detects it by silence alone, after 50 s; the
    /// session's watchdog is faster while media flow.
    @Test
    func silenceIsNoticed() async throws {
        let other = NetworkThread(name: "frozen-peer")
        let left = try TestPeer(controlling: true)
        let right = try TestPeer(controlling: false, network: other)
        #expect(await TestPeer.connect(left, right))
        let thaw = DispatchSemaphore(value: 0)
        other.async { thaw.wait() }
        #expect(await left.state(.failed, within: .seconds(70)))
        thaw.signal()
        left.agent.close()
        right.agent.close()
    }
}
