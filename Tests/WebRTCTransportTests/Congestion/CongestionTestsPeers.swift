import Dispatch
import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

@Suite(.serialized, .timeLimit(.minutes(1)))
struct CongestionPeerTests {
    /// Two of our own peers on loopback. The sender reads transport-cc feedback, or receiver reports without it.
    /// In either case the target stays close to the low bit rate that the test pattern proves: `scripts/verify` compares
    /// it, and the simulated links of `CongestionTestsSimulation` assert it.
    @Test(arguments: [true, false])
    func theFarSidesWordIsHeard(usesTransportCC: Bool) throws {
        let start = 30_000
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = 20_000...2_500_000
        configuration.startBitrate = start
        let (a, b) = (try TestPeer(configuration), try TestPeer())
        defer { TestPeer.stop(a, b) }
        try join(
            a, b,
            mangleOffer: { offer in
                guard !usesTransportCC else { return offer }
                return offer.split(separator: "\r\n").filter { !$0.contains("transport-") }.map { $0 + "\r\n" }.joined()
            })
        #expect(
            a.connection.statistics().bitrateTarget == BitrateTarget(target: start, estimate: start, reason: .start))
        try TestPeer.startMedia(a, b)
        #expect(b.waitForFrames(Verification.isOn ? 150 : 20))
        let reasons: Set<BitrateTarget.Reason> = usesTransportCC ? [.delay, .loss, .floor] : [.reports]
        #expect(
            eventually(seconds: 20) {
                a.connection.statistics().bitrateTarget.map { reasons.contains($0.reason) } == true
            }, "\(String(describing: a.connection.statistics().bitrateTarget))")
        guard Verification.isOn else { return }
        let statistics = a.connection.statistics()
        let target = try #require(statistics.bitrateTarget)
        // 150 frames take five seconds, so the bound is 3.75 times the mean bit rate. The bytes include a keyframe.
        measure(
            "target, \(usesTransportCC ? "transport-cc" : "reports")", Double(target.target),
            atMost: Double(statistics.bytesSent) * 8 / 4 * 3, unit: "bit/s")
    }
}
