import ICE
import Testing
import WebRTCTransport

@Suite("Relays alone", .timeLimit(.minutes(1)))
struct RelayPolicyTests {
    /// Without a server that gives a relay, no candidate would ever be found.
    @Test(arguments: [
        ([], ICETransportPolicy.relay, false), (["stun:192.0.2.1"], .relay, false),
        (["stun:192.0.2.1", "turn:u:p@192.0.2.1"], .relay, true), ([], .all, true),
    ])
    func relaysNeedAServer(urls: [String], policy: ICETransportPolicy, isUsable: Bool) throws {
        var configuration = PeerConnectionConfiguration()
        configuration.iceServers = try urls.map { try ICEServer(url: $0) }
        configuration.iceTransportPolicy = policy
        do throws(PeerConnectionError) {
            try configuration.checkRelays()
            #expect(isUsable)
        } catch {
            #expect(!isUsable && error.code == .ice && error.message.contains("turn-servers"))
        }
    }
}
