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

    @Test
    func packetsWithinFiveMillisecondsAreOneGroup() {
        var groups = InterArrivalGrouper()
        #expect(groups.add(sendTime: 0, arrival: 50_000) == nil)
        #expect(groups.add(sendTime: 4_000, arrival: 55_000) == nil)
        #expect(groups.add(sendTime: 33_000, arrival: 83_000) == nil)
        let variation = groups.add(sendTime: 66_000, arrival: 126_000)
        #expect(variation == InterArrivalGrouper.InterGroupDelay(send: 29, arrival: 28, time: 83_000))
        #expect(variation?.delay == -1)
        // A group that was reordered in the network is ignored.
        #expect(groups.add(sendTime: 40_000, arrival: 127_000) == nil)
        #expect(groups.add(sendTime: 100_000, arrival: 150_000)?.arrival == 43)
    }

    @Test
    func aStepOfTheFarClockIsNoDelay() {
        var groups = InterArrivalGrouper()
        var seen: [Double] = []
        for step in 0..<10 as Range<Int64> {
            let jump: Int64 = step >= 5 ? 3_600_000_000 : 0
            if let variation = groups.add(sendTime: step * 33_000, arrival: step * 33_000 + jump) {
                seen.append(variation.delay)
            }
        }
        #expect(seen.count >= 5)
        #expect(seen.allSatisfy { $0 == 0 })
    }

    /// Returns the signals for groups 10 ms apart with a delay that changes by `slope` ms per ms.
    private func signals(slope: Double, groups: Int = 100) -> [OveruseDetector.Signal] {
        var filter = TrendlineFilter()
        var detector = OveruseDetector()
        return (0..<groups).map { step in
            let variation = InterArrivalGrouper.InterGroupDelay(
                send: 10, arrival: 10 + slope * 10, time: Int64(Double(step) * 10_000 * (1 + slope)))
            return detector.update(offset: filter.update(variation), interval: 10, time: variation.time)
        }
    }

    @Test
    func aGrowingQueueIsOverUseAShrinkingOneUnderUse() {
        #expect(Set(signals(slope: 0)) == [.normal])
        #expect(signals(slope: 0.3).contains(.overuse))
        #expect(!signals(slope: 0.3).contains(.underuse))
        #expect(signals(slope: -0.3).contains(.underuse))
        #expect(!signals(slope: -0.3).contains(.overuse))
        // Clock drift of 0.02 % must not count as overuse.
        #expect(Set(signals(slope: 0.0002, groups: 1000)) == [.normal])
    }

    @Test
    func theThresholdFollowsAndStaysInItsBounds() {
        var detector = OveruseDetector()
        for step in 0..<2000 as Range<Int64> { _ = detector.update(offset: 0, interval: 10, time: step * 10_000) }
        #expect(detector.threshold == 6)
        for step in 2000..<4000 as Range<Int64> { _ = detector.update(offset: 15, interval: 10, time: step * 10_000) }
        #expect(detector.threshold > 10)
        let before = detector.threshold
        _ = detector.update(offset: 1000, interval: 10, time: 40_010_000)
        #expect(detector.threshold == before)
    }

    @Test
    func aStandingQueueIsFoundAndALongerRouteForgiven() {
        var queue = StandingQueue()
        var found = 0
        func run(_ from: Int64, _ to: Int64, _ delay: Int64) {
            for now in stride(from: from, to: to, by: 50_000) where queue.update(oneWay: delay - 99_000_000, now: now) {
                found += 1
            }
        }
        run(0, 3_000_000, 50_000)
        #expect(found == 0)
        run(3_000_000, 5_000_000, 300_000)
        #expect(found >= 1)
        let soon = found
        run(5_000_000, 10_000_000, 300_000)
        #expect(found <= soon + 3)
        let after = found
        run(10_000_000, 60_000_000, 300_000)
        #expect(found == after)
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

    @Test
    func lossThatDoesNotAnswerToTheRateIsNotChased() {
        #expect(lossController(start: 1e6, loss: 20, reports: 400).estimate == 0.6e6)
        // Loss of 60 % is congestion: the estimate falls until the rate fits.
        #expect(lossController(start: 1e6, loss: 60, reports: 400).estimate < 0.1e6)
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
