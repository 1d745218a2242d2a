// Send-side congestion control after Google Congestion Control, draft-ietf-rmcat-gcc-02: the lower of a delay-based
// and a loss-based estimate, bounded by the far side's REMB and by the configured range. A value: it knows no socket,
// clock, lock or encoder. All times are µs on one monotonic clock, except arrivals, which are on the far side's.

package struct CongestionController: Sendable {
    private let range: ClosedRange<Int>
    private let start: Int

    private var groups = PacketGroups()
    private var filter = TrendlineFilter()
    private var detector = OveruseDetector()
    private var standing = StandingQueue()
    private var delay: DelayBasedController
    private var loss: LossBasedController
    private var reportedTrip = RoundTripMonitor()
    private var received = RateWindow()
    private var sent = RateWindow()
    private var lastTotal: UInt64?

    private var feedbackTrip: Int64?
    private var lastFeedback: Int64?
    private var unansweredSince: Int64?
    private var silences = 0
    private var highestReported: UInt32?
    private var heardReports = false
    private var lastReportBackOff: Int64?
    private var remoteEstimate: (bitrate: Int, time: Int64)?

    private var published: BitrateTarget
    private var publishedAt: Int64?
    /// The latest that was decided, published or not.
    private var latestEstimate: Int
    private var isLimitedByNetwork = false

    /// An estimate that is not renewed ceases to bind: one lost packet must not hold us for ever.
    private static let remoteEstimateLife: Int64 = 15_000_000
    private static let feedbackLife: Int64 = 10_000_000
    private static let publishInterval: Int64 = 100_000
    private static let silence: Int64 = 1_000_000
    /// A queue is to be gone in about this time, µs: at what the path carries it would stay, and with it its delay.
    private static let drainTime = 2_000_000.0
    /// Of the target, while a queue drains: less would freeze the picture for it.
    private static let leastShare = 0.5

    /// `range` and `start` in bit/s; the start is clamped to the range, the range to 10 Gbit/s.
    package init(range: ClosedRange<Int>, start: Int) {
        let sane = 1...10_000_000_000
        self.range = range.clamped(to: sane)
        self.start = min(max(start, self.range.lowerBound), self.range.upperBound)
        delay = DelayBasedController(start: Double(self.start))
        loss = LossBasedController(start: Double(self.start), ceiling: Double(self.range.upperBound) * 1.5)
        published = BitrateTarget(target: self.start, estimate: self.start, reason: .start)
        latestEstimate = self.start
    }

    /// What was published last; the start value before that.
    package var target: BitrateTarget { published }
    /// µs, of the path alone; nil before the far side's first receiver report.
    package var pathRoundTrip: Int64? { reportedTrip.smoothed }
    /// µs; nil as long as nothing told it.
    package var roundTrip: Int64? { feedbackTrip ?? reportedTrip.smoothed }

    // MARK: Facts; each answers with a new target when it is time for one

    /// One transport-cc message; `totalBytes` were sent so far.
    package mutating func feedback(_ feedback: ResolvedFeedback, totalBytes: UInt64, now: Int64) -> BitrateTarget? {
        count(totalBytes, now: now)
        if lastFeedback == nil { loss.lift() }
        let endsSilence = silences > 0 && feedback.received > 0
        if feedback.received > 0 {
            lastFeedback = now
            unansweredSince = nil
            silences = 0
        }
        if let newest = feedback.newestSendTime, now > newest {
            let trip = now &- newest
            feedbackTrip = feedbackTrip.map { ($0 &* 3 &+ trip) / 4 } ?? trip
        }
        var signal = judge(feedback)
        if let least = feedback.arrivals.map({ $0.arrival &- $0.sendTime }).min(),
            standing.update(oneWay: least, now: now)
        {
            signal = .overuse
        }
        let trip = roundTrip ?? 100_000
        var delivered: Int?
        if !feedback.arrivals.isEmpty, !endsSilence {
            delivered = feedback.arrivals.last.flatMap { received.bitrate(at: $0.arrival) }
            delay.update(signal, received: delivered, sent: sent.bitrate(at: now), roundTrip: trip, now: now)
        }
        let tried = sent.bitrate(at: now).map(Double.init)
        if endsSilence {
            // The path was away, and that was answered: what it swallowed says nothing about what it carries.
            loss.forget()
            (groups, filter, detector, standing) = (
                PacketGroups(), TrendlineFilter(), OveruseDetector(), StandingQueue()
            )
            return publish(now)
        }
        loss.add(lost: feedback.lost, recovered: feedback.recovered, received: feedback.received)
        loss.update(
            current: sustained, sent: tried, delivered: delivered.map(Double.init),
            evidence: evidence(now),
            roundTrip: trip, now: now)
        return publish(now)
    }

    /// One reception report about our media; it counts only where no transport-cc feedback comes.
    package mutating func report(_ report: ReceptionReport, roundTrip: Int64?, totalBytes: UInt64, now: Int64)
        -> BitrateTarget?
    {
        count(totalBytes, now: now)
        let previous = highestReported
        highestReported = report.highestSequence
        let verdict = roundTrip.map { reportedTrip.update($0, now: now) } ?? .clear
        if let last = lastFeedback, now &- last > Self.feedbackLife {
            // It came once and comes no more, though the far side is there: go on by its reports.
            lastFeedback = nil
            loss.backOff(to: sustained)
        }
        guard lastFeedback == nil else { return publish(now) }
        if let previous {
            let expected = Int(Int32(bitPattern: report.highestSequence &- previous))
            if expected > 0, expected < 32_768 {
                heardReports = true
                let lost = (Int(report.fractionLost) * expected + 128) / 256
                loss.add(lost: lost, received: expected - lost)
            }
        }
        let trip = reportedTrip.smoothed ?? 100_000
        let tried = sent.bitrate(at: now).map(Double.init)
        switch verdict {
        case .clear, .rising:
            // A rising round trip is no reason to go down yet, but none to go up.
            loss.update(
                current: sustained, sent: tried, evidence: verdict == .clear ? evidence(now) : 0,
                roundTrip: trip, atOnce: true, now: now)
        case .queueing:
            if lastReportBackOff.map({ now &- $0 > 500_000 &+ trip }) ?? true {
                lastReportBackOff = now
                loss.backOff(to: 0.85 * sustained)
            }
        }
        return publish(now)
    }

    /// The far side's own estimate (draft-alvestrand-rmcat-remb-03), bit/s.
    package mutating func remoteEstimate(_ bitrate: Int, now: Int64) -> BitrateTarget? {
        remoteEstimate = (max(0, bitrate), now)
        return publish(now)
    }

    /// Time passes; call it a few times a second.
    package mutating func tick(totalBytes: UInt64, now: Int64) -> BitrateTarget? {
        count(totalBytes, now: now)
        if let since = unansweredSince, lastFeedback != nil, now &- since >= Self.silence {
            unansweredSince = now
            // Two halvings; a dead path is for ICE to notice, and a short gap should not cost minutes of quality.
            if silences < 2 {
                silences += 1
                delay.silence(current: sustained, floor: Double(range.lowerBound))
            }
        }
        return publish(now)
    }

    // MARK: Judgement

    private mutating func judge(_ feedback: ResolvedFeedback) -> OveruseDetector.Signal {
        var signal: OveruseDetector.Signal?
        for (index, packet) in feedback.arrivals.enumerated() {
            received.add(packet.size &+ (index == 0 ? feedback.unreportedBytes : 0), at: packet.arrival)
            guard let variation = groups.add(sendTime: packet.sendTime, arrival: packet.arrival) else { continue }
            let offset = filter.update(variation)
            let state = detector.update(offset: offset, interval: variation.send, time: variation.time)
            // Over-use anywhere in the message counts; else the latest state does.
            if signal != .overuse { signal = state }
        }
        return signal ?? .normal
    }

    private mutating func count(_ totalBytes: UInt64, now: Int64) {
        let step = totalBytes &- (lastTotal ?? totalBytes)
        lastTotal = totalBytes
        sent.add(Int(clamping: step), at: now)
        if step > 0, unansweredSince == nil { unansweredSince = now }
    }

    /// The rate up to which something has been tried: without traffic an estimate must not climb.
    private mutating func evidence(_ now: Int64) -> Double {
        let tried = 1.5 * Double(sent.bitrate(at: now) ?? 0) + 10_000
        return delay.hasBackedOff || lastReportBackOff != nil ? tried : max(Double(start), tried)
    }

    /// The target in force, but for what is held back until a queue has drained.
    private var sustained: Double { Double(published.sustained) }

    private func clamped(_ bitrate: Int) -> Int { min(max(bitrate, range.lowerBound), range.upperBound) }

    private mutating func publish(_ now: Int64) -> BitrateTarget? {
        if let bound = remoteEstimate, now &- bound.time > Self.remoteEstimateLife { remoteEstimate = nil }
        var next = decide()
        // At its coarsest quantizer an encoder sends more than the configured maximum: what is lost of that tells then.
        let overflows = loss.loss > LossBasedController.highLoss && sent.bitrate(at: now) ?? 0 > range.upperBound
        if isQueueing || overflows || next.estimate < min(latestEstimate, range.upperBound) {
            isLimitedByNetwork = true
        } else if next.estimate >= range.upperBound {
            isLimitedByNetwork = false
        }
        latestEstimate = next.estimate
        next.isLimitedByNetwork = isLimitedByNetwork
        guard next != published else { return nil }
        let isNews =
            next.reason != published.reason || next.isLimitedByNetwork != published.isLimitedByNetwork
            || abs(next.target - published.target) * 50 >= published.target
        guard isNews, publishedAt.map({ now &- $0 >= Self.publishInterval }) ?? true else { return nil }
        published = next
        publishedAt = now
        return next
    }

    /// A queue stands on the path, by the feedback that still comes.
    private var isQueueing: Bool { lastFeedback != nil && standing.length > 0 }

    private func decide() -> BitrateTarget {
        var estimate = Double.infinity
        var reason = BitrateTarget.Reason.start
        if lastFeedback != nil {
            (estimate, reason) = (delay.estimate, .delay)
            if loss.estimate < estimate { (estimate, reason) = (loss.estimate, .loss) }
        } else if heardReports || lastReportBackOff != nil {
            (estimate, reason) = (loss.estimate, .reports)
        } else {
            estimate = Double(start)
        }
        if let bound = remoteEstimate, Double(bound.bitrate) < estimate {
            (estimate, reason) = (Double(bound.bitrate), .remb)
        }
        let whole = Int(min(estimate, 1e12))
        if reason != .start {
            if whole >= range.upperBound { reason = .ceiling }
            if whole <= range.lowerBound { reason = .floor }
        }
        let target = clamped(whole)
        guard isQueueing else {
            return BitrateTarget(target: target, estimate: whole, reason: reason)
        }
        let share = max(Self.leastShare, 1 - Double(standing.length) / Self.drainTime)
        return BitrateTarget(
            target: clamped(Int(share * Double(target))), sustained: target, estimate: whole, reason: .delay)
    }
}
