import Dispatch
import GStreamerKit
import Testing
import WebRTCTransport

@Suite(.serialized, .timeLimit(.minutes(1)))
struct CongestionPeerTests {
    /// Two of our own peers on loopback. The sender reads transport-cc feedback, or receiver reports without it.
    /// In either case the target stays close to the low bit rate that the test pattern proves.
    @Test(arguments: [true, false])
    func theFarSidesWordIsHeard(usesTransportCC: Bool) throws {
        GStreamerRuntime.initialise()
        let start = 30_000
        var configuration = PeerConnectionConfiguration()
        configuration.bitrateRange = 20_000...2_500_000
        configuration.startBitrate = start
        let a = try TestPeer(configuration)
        let b = try TestPeer()
        defer {
            a.stop()
            b.stop()
        }
        try join(
            a, b,
            mangleOffer: { offer in
                guard !usesTransportCC else { return offer }
                return offer.split(separator: "\r\n").filter { !$0.contains("transport-") }.map { $0 + "\r\n" }.joined()
            })
        #expect(
            a.connection.statistics().bitrateTarget == BitrateTarget(target: start, estimate: start, reason: .start))
        try a.startMedia()
        try b.startMedia()
        #expect(b.waitForFrames(150))
        let statistics = a.connection.statistics()
        let target = try #require(statistics.bitrateTarget)
        if usesTransportCC {
            #expect([.delay, .loss, .floor].contains(target.reason))
        } else {
            #expect(target.reason == .reports)
        }
        // 150 frames take five seconds, so the bound is 3.75 times the mean bit rate. The bytes include a keyframe.
        #expect(target.target < Int(statistics.bytesSent) * 8 / 4 * 3)
    }
}
