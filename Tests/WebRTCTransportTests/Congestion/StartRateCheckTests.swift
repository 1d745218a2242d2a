import RTP
import Testing
import WebRTCTransport

@Suite struct StartRateCheckTests {
    /// Feedback about packets of 1,000 bytes with these times of sending and arrival, ms.
    private func feedback(_ times: [(sent: Int64, arrived: Int64)]) -> ResolvedFeedback {
        var feedback = ResolvedFeedback()
        feedback.arrivals = times.map { .init(sendTime: $0.sent * 1000, arrival: $0.arrived * 1000, size: 1000) }
        return feedback
    }

    @Test func aBurstThatArrivesAsOne() {
        var check = StartRateCheck(start: 1_000_000)
        #expect(check.update(feedback((0..<10).map { ($0 / 5, 40 + $0 / 5) }), now: 0) == .carried)
        #expect(check.isOver)
        #expect(check.update(feedback((0..<10).map { (100, 140 + 50 * $0) }), now: 1) == nil, "one verdict")
    }

    /// 8 ms a packet are 1 Mbit/s.
    @Test func aBurstThatIsSpread() {
        var check = StartRateCheck(start: 1_000_000)
        #expect(check.update(feedback((0..<3).map { (0, 40 + 16 * $0) }), now: 0) == nil, "too few")
        #expect(check.update(feedback((3..<9).map { (1, 40 + 16 * $0) }), now: 50_000) == .refused(500_000))
        #expect(check.isOver)
    }

    @Test func theOrderOfArrivalDoesNotMatter() {
        var check = StartRateCheck(start: 1_000_000)
        #expect(check.update(feedback((0..<9).reversed().map { (0, 40 + 16 * $0) }), now: 0) == .refused(500_000))
    }

    /// Packets that were sent slowly arrive slowly, and jitter spreads by less than a queue.
    @Test func anythingElseIsNoVerdict() {
        var slow = StartRateCheck(start: 1_000_000)
        #expect(slow.update(feedback((0..<10).map { (100 * $0, 40 + 100 * $0) }), now: 0) == nil)
        var jitter = StartRateCheck(start: 1_000_000)
        #expect(jitter.update(feedback((0..<4).map { (0, 40 + 14 * $0) }), now: 0) == nil)
        #expect(!slow.isOver && !jitter.isOver)
        #expect(slow.update(ResolvedFeedback(), now: 1_000_001) == nil)
        #expect(slow.isOver, "too little traffic")
    }

    @Test func timesOfAHostilePeer() {
        var check = StartRateCheck(start: 1_000_000)
        var feedback = ResolvedFeedback()
        feedback.arrivals = [.min, .max, 0, .max, .min].map { .init(sendTime: 0, arrival: $0, size: 1200) }
        _ = check.update(feedback, now: .max)
        _ = check.update(feedback, now: .min)
    }
}
