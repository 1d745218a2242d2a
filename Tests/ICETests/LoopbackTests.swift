import ICE
import Testing

@Suite(.timeLimit(.minutes(1)))
struct LoopbackTests {
    @Test(arguments: ["127.0.0.1", "::1"])
    func twoAgentsConnect(over address: String) async throws {
        let left = try TestPeer(controlling: true)
        let right = try TestPeer(controlling: false)
        defer {
            left.agent.close()
            right.agent.close()
        }
        let connected = await TestPeer.connect(left, right) { $0.contains(" \(address) ") }
        #expect(connected)
        #expect(left.send([20, 1, 2, 3]))
        #expect(right.send([128, 9]))
        #expect(await right.receives([20, 1, 2, 3]))
        #expect(await left.receives([128, 9]))
        let pair = try #require(left.agent.selectedPair)
        #expect(pair.remote.address.contains(address))
        #expect(!pair.isRelayed)
        #expect(pair.transport == "udp")
    }
}
