import RTP
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct CongestionEstimatorTests {
    @Test
    func rateOverHalfASecond() {
        var window = RateWindow()
        #expect(window.bitrate(at: 0) == nil)
        for step in 0..<100 { window.add(1250, at: Int64(step) * 10_000) }
        let rate = window.bitrate(at: 990_000) ?? 0
        #expect(abs(rate - 1_000_000) < 30_000)
        // Half of the window is empty at 1.25 s, all of it at 5 s.
        #expect(abs((window.bitrate(at: 1_250_000) ?? 0) - 500_000) < 50_000)
        #expect(window.bitrate(at: 5_000_000) == 0)
        // Timestamps that go back or jump far ahead do no harm.
        window.add(1000, at: 10)
        window.add(1000, at: .max / 2)
        window.add(1000, at: -5_000_000)
        // Measuring resumes after a step back to a sane time.
        for step in 0..<100 as Range<Int64> { window.add(1250, at: 20_000_000 + step * 10_000) }
        #expect(abs((window.bitrate(at: 20_990_000) ?? 0) - 1_000_000) < 30_000)
    }

    /// Returns when the queue was judged, s, if the delay is `delay` (ms) at each time (ms).
    private func judgements(_ queue: inout StandingQueue, _ times: Range<Int64>, _ delay: (Int64) -> Int64)
        -> (stands: [Double], isForeign: [Double])
    {
        var (stands, foreign): ([Double], [Double]) = ([], [])
        for now in stride(from: times.lowerBound, to: times.upperBound, by: 50) {
            let oneWay = delay(now) * 1000 - 99_000_000
            switch queue.update(oneWay: oneWay, roundTrip: 100_000, now: now * 1000) {
            case .short: break
            case .stands: stands.append(Double(now) / 1000)
            case .isForeign: foreign.append(Double(now) / 1000)
            }
        }
        return (stands, foreign)
    }

    @Test
    func aLongQueueIsJudgedSoonAndAShortOneLater() {
        for (delay, first) in [(130, 2.1), (85, 2.4)] as [(Int64, Double)] {
            var queue = StandingQueue()
            let seen = judgements(&queue, 0..<2_900) { $0 < 2000 ? 50 : delay }
            #expect(seen.stands.first == first && seen.isForeign.isEmpty)
            // The baseline rises a little, as a slewed clock would make it.
            #expect(queue.stands && (((delay - 73) * 1000)...((delay - 70) * 1000)).contains(queue.length))
        }
    }

    /// At 300 kbit/s a packet of 1200 bytes takes 32 ms.
    @Test
    func whatAPacketTakesItselfIsNoQueue() {
        for (ownTime, isQueue) in [(32_000, false), (0, true)] as [(Int64, Bool)] {
            var queue = StandingQueue()
            var length: Int64 = 0
            for now in stride(from: Int64(0), to: 10_000, by: 100) {
                let oneWay: Int64 = now < 2000 ? 20_000 : 52_000
                _ = queue.update(
                    oneWay: oneWay, ownTime: now < 2000 ? 3000 : ownTime, roundTrip: 80_000, now: now * 1000)
                length = max(length, queue.length)
            }
            #expect((length > 0) == isQueue)
        }
        // A queue on top of it is one.
        var queue = StandingQueue()
        let verdicts = stride(from: Int64(0), to: 3_000, by: 100).map { now in
            queue.update(
                oneWay: now < 2000 ? 52_000 : 120_000, ownTime: 32_000, roundTrip: 80_000, now: now * 1000)
        }
        #expect(verdicts.contains(.stands))
    }

    @Test
    func aQueueThatDrainsIsNoReasonToReduceAgain() {
        var queue = StandingQueue()
        let seen = judgements(&queue, 0..<8_000) { $0 < 2000 ? 50 : max(50, 250 - ($0 - 2000) / 10) }
        #expect(seen.stands.isEmpty && seen.isForeign.isEmpty && queue.length == 0)
    }

    /// A longer route, or a queue that others fill.
    @Test
    func aQueueThatStaysIsTolerated() {
        var queue = StandingQueue()
        let seen = judgements(&queue, 0..<20_000) { $0 < 2000 ? 50 : 300 }
        #expect(seen.stands.count == 3 && seen.isForeign.count == 1)
        #expect(queue.length == 0 && (245_000...250_000).contains(queue.tolerance))
        // What comes on top of it is not.
        let above = judgements(&queue, 20_000..<20_500) { _ in 400 }
        #expect(above.stands.count == 1)
        // The tolerance fades when the queue is gone.
        _ = judgements(&queue, 20_500..<50_000) { _ in 50 }
        #expect(queue.tolerance < 60_000)
    }

    /// Adds reports of 100 packets each, four a second, with `loss` lost packets per report.
    private func lossController(start: Double, loss: Int, reports: Int) -> LossBasedController {
        var controller = LossBasedController(start: start, ceiling: 3e6)
        for report in 0..<reports {
            controller.add(lost: loss, received: 100 - loss)
            controller.update(
                current: controller.estimate, sent: controller.estimate, provenRate: 3e6, roundTrip: 100_000,
                now: Int64(report) * 250_000)
        }
        return controller
    }

    @Test
    func lossBelowTwoPerCentClimbsAboveTenFallsBetweenHolds() {
        #expect(lossController(start: 1e6, loss: 0, reports: 41).estimate > 1.9e6)
        #expect(lossController(start: 1e6, loss: 5, reports: 40).estimate == 1e6)
        #expect(lossController(start: 1e6, loss: 20, reports: 5).estimate < 0.91e6)
    }

    /// draft-ietf-rmcat-gcc-02 section 6: the rate falls by half of the loss fraction, 1 - 0.5 * 0.2.
    @Test
    func oneReportOfLossIsOneStepByHalfOfIt() {
        #expect(lossController(start: 1e6, loss: 20, reports: 2).estimate == 1e6)
        #expect(lossController(start: 1e6, loss: 20, reports: 3).estimate == 0.9e6)
        // No second decrease yet: this report still shows packets sent before the first one.
        #expect(lossController(start: 1e6, loss: 20, reports: 4).estimate == 0.9e6)
        #expect(lossController(start: 1e6, loss: 20, reports: 5).estimate == 0.81e6)
    }

    /// Within a round trip, arrivals cannot yet show the effect of the last decrease.
    @Test(arguments: [(10_000, 50_000), (120_000, 120_000), (900_000, 200_000)] as [(Int64, Int64)])
    func overUseBacksOffOnceARoundTrip(roundTrip: Int64, pause: Int64) {
        var controller = DelayBasedController(start: 1e6)
        func overuse(received: Int, at now: Int64) -> Double {
            controller.update(.overuse, received: received, sent: received, roundTrip: roundTrip, now: now)
            return controller.estimate
        }
        #expect(overuse(received: 1_000_000, at: 5_000_000) == 0.85e6)
        #expect(overuse(received: 800_000, at: 5_000_000 + pause / 2) == 0.85e6)
        #expect(overuse(received: 800_000, at: 5_000_000 + pause - 1) == 0.85e6)
        #expect(overuse(received: 800_000, at: 5_000_000 + pause) == 0.68e6)
    }

    /// One reduction shows that the loss does not depend on the rate.
    @Test
    func lossOfThePathItselfIsDeducted() {
        #expect(lossController(start: 1e6, loss: 20, reports: 7).estimate < 0.8e6)
        let later = lossController(start: 1e6, loss: 20, reports: 100)
        #expect(later.estimate > 2e6 && later.excess < 0.01)
        // Loss of 60 % is congestion: the estimate falls until the rate fits.
        #expect(lossController(start: 1e6, loss: 60, reports: 400).estimate < 0.1e6)
    }

    /// A path of 0.8 Mbit/s with a short queue: the loss depends on the rate.
    @Test
    func lossThatTheRateCausesLowersIt() {
        var controller = LossBasedController(start: 1.2e6, ceiling: 3e6)
        var estimates: [Double] = []
        for report in 0..<240 {
            let lost = max(0, Int(100 * (1 - 0.8e6 / controller.estimate)))
            controller.add(lost: lost, received: 100 - lost)
            controller.update(
                current: controller.estimate, sent: controller.estimate, provenRate: 3e6, roundTrip: 100_000,
                now: Int64(report) * 250_000)
            if report > 40 { estimates.append(controller.estimate) }
        }
        #expect(estimates.allSatisfy { (0.6e6...1.1e6).contains($0) }, "\(estimates)")
    }

    @Test
    func lateIsNotLost() {
        var controller = LossBasedController(start: 1e6, ceiling: 3e6)
        for report in 0..<40 as Range<Int64> {
            controller.add(lost: 30, recovered: report == 0 ? 0 : 30, received: 100)
            controller.update(current: 1e6, sent: 1e6, provenRate: 3e6, roundTrip: 100_000, now: report * 250_000)
        }
        #expect(controller.estimate > 1e6)
    }

    @Test
    func remoteEstimateBoundsAndExpires() {
        var controller = CongestionController(range: 100_000...2_500_000, start: 1_500_000)
        #expect(controller.target == BitrateTarget(target: 1_500_000, estimate: 1_500_000, reason: .start))
        #expect(
            controller.remoteEstimate(700_000, now: 1_000_000)
                == BitrateTarget(target: 700_000, estimate: 700_000, reason: .remb, isLimitedByNetwork: true))
        #expect(controller.remoteEstimate(705_000, now: 2_000_000) == nil)
        #expect(
            controller.remoteEstimate(0, now: 3_000_000)
                == BitrateTarget(target: 100_000, estimate: 0, reason: .floor, isLimitedByNetwork: true))
        // Too soon after the last change; the next tick emits it.
        #expect(controller.remoteEstimate(600_000, now: 3_050_000) == nil)
        #expect(controller.tick(totalBytes: 0, now: 3_250_000)?.target == 600_000)
        #expect(controller.remoteEstimate(.max, now: 4_000_000)?.reason == .start)
        _ = controller.remoteEstimate(300_000, now: 5_000_000)
        #expect(controller.tick(totalBytes: 0, now: 21_000_000)?.target == 1_500_000)
    }

    @Test
    func reportsTakeOverWhenFeedbackCeases() {
        var controller = CongestionController(range: 100_000...2_500_000, start: 1_000_000)
        var feedback = ResolvedFeedback()
        feedback.received = 1
        feedback.arrivals = [.init(sendTime: 0, arrival: 0, size: 1000)]
        _ = controller.feedback(feedback, totalBytes: 1000, now: 100_000)
        var total: UInt64 = 1000
        var reasons: Set<BitrateTarget.Reason> = []
        for step in 1..<60 as Range<Int64> {
            total += 60_000
            let report = ReceptionReport(
                ssrc: 1, fractionLost: 0, highestSequence: UInt32(step) * 50, lastSenderReport: 0,
                delaySinceLastSenderReport: 0)
            let now = 100_000 + step * 500_000
            if let target = controller.report(report, roundTrip: 50_000, totalBytes: total, now: now) {
                reasons.insert(target.reason)
            }
            if let target = controller.tick(totalBytes: total, now: now + 1000) { reasons.insert(target.reason) }
        }
        #expect(reasons.contains(.delay) && reasons.contains(.reports))
        #expect(controller.target.reason == .reports)
        // The rate falls to a quarter during the silence, then rises again.
        #expect(controller.target.target > 500_000)
    }

    @Test
    func startIsClampedToTheRange() {
        #expect(CongestionController(range: 100_000...400_000, start: 1_500_000).target.target == 400_000)
        #expect(CongestionController(range: 2_000_000...4_000_000, start: 1_500_000).target.target == 2_000_000)
        #expect(CongestionController(range: 0...0, start: 0).target.target == 1)
        #expect(CongestionController(range: .min ... .max, start: .max).target.target == 10_000_000_000)
    }
}
