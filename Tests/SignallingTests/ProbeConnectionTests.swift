import DecartSession
import Signalling
import TestSupport
import Testing

@Suite("A connection for a diagnosis", .timeLimit(.minutes(1)))
struct ProbeConnectionTests {
    /// What the network thread delivers waits for the diagnosis' own thread.
    @Test func aPeerThatSendsWithoutEndIsLeft() async throws {
        var script = Script.http { _ in [0] }
        script.endless = [UInt8](repeating: 0, count: 1 << 16)
        let server = try RawServer(script)
        let seen = Observed((isConnected: false, bytes: 0, failure: ""))
        let probe = ProbeConnection(host: "127.0.0.1", port: server.port, transport: .tcp, limit: .seconds(20)) {
            event in
            switch event {
            case .connected: seen.change { $0.isConnected = true }
            case .received(let bytes): seen.change { $0.bytes += bytes.count }
            case .failed(let error): seen.change { $0.failure = error.message }
            }
        }
        probe.open()
        #expect(await seen.wait { $0.isConnected })
        probe.send([UInt8]("GET / HTTP/1.1\r\n\r\n".utf8))
        #expect(await seen.wait { !$0.failure.isEmpty })
        #expect(seen.value.failure.contains("sends more than an answer has"))
        #expect((1...ProbeConnection.maximumReceived).contains(seen.value.bytes), "\(seen.value.bytes)")
        await server.stop()
    }
}
