import RTP
import Testing
import WebRTCTransport

/// RTCP that shows whether our video arrives.
struct UplinkProofTests {
    private func report(_ ssrc: UInt32, _ highest: UInt32) -> RTCPCompound {
        let words: [UInt32] = [0x81c9_0007, 1, ssrc, 0, highest, 0, 0, 0]
        let bytes = words.flatMap { word in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> UInt32($0)) } }
        return bytes.withUnsafeBytes { RTCPCompound(parsing: $0) }
    }

    @Test func onlyAReportThatAdvances() {
        var proof = UplinkProof(ssrcs: 10..<16)
        let first = [(1, 5), (2, 5)].map { proof.received(report(10, $1), now: .seconds($0)) }
        #expect(first == [true, false])
        #expect(!proof.isStale(now: .seconds(11)))
        #expect(proof.isStale(now: .seconds(12)))
        let next = [proof.received(report(12, 5), now: .seconds(13)), proof.received(report(10, 6), now: .seconds(14))]
        #expect(next == [true, true])
        #expect(!proof.isStale(now: .seconds(20)))
    }

    @Test func aReportAboutOthersProvesNothing() {
        var proof = UplinkProof(ssrcs: 10..<16)
        let others = [proof.received(report(9, 5), now: .zero), proof.received(report(16, 6), now: .zero)]
        #expect(others == [false, false])
        #expect(proof.isStale(now: .zero))
    }
}
