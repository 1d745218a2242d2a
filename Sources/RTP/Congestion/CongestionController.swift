// Send-side congestion control after Google Congestion Control, draft-ietf-rmcat-gcc-02: the lower of a delay-based and
// a loss-based estimate, bounded by the remote peer's REMB and by the configured range. The length of the queue takes the
// place of the draft's delay gradient. A value: it knows no socket, clock, lock or encoder. All times are µs on one
// monotonic clock, except arrivals, which are on the remote peer's.

package struct CongestionController: Sendable {
    private var range: ClosedRange<Int>
    private let start: Int

    private var standing = StandingQueue()
    /// The delay-based estimate before the reductions for a queue.
    private var beforeQueue = 0.0
    private var delay: DelayBasedController
    private var startCheck: StartRateCheck
    private var loss: LossBasedController
    private var reportedTrip = RoundTripMonitor()
    private var received = RateWindow()
    private var lastArrival: Int64?
    private var sent = RateWindow()
    private var lastTotal: UInt64?
    private var retransmissionRate = RateWindow()
    private var lastRetransmittedBytes: UInt64 = 0
    /// Bitrate of the retransmissions, which the encoder's target leaves room for.
    private var retransmissions = 0

    private var feedbackTrip: Int64?
    private var lastFeedback: Int64?
    private var unansweredSince: Int64?
    private var silences = 0
    private var highestReported: UInt32?
    private var hasReports = false
    /// transport-cc feedback has arrived before, whether or not it still does.
    private var hasHadFeedback = false
    private var lastReportBackOff: Int64?
    private var remoteEstimate: (bitrate: Int, time: Int64)?
    private var probes = ProbeController()

    /// The target that was published last; the start value before that.
    package private(set) var target: BitrateTarget
    private var publishedAt: Int64?
    /// The estimate of the latest decision, published or not.
    private var latestEstimate: Int
    private var isLimitedByNetwork = false

    /// A REMB that is not renewed expires, µs: one lost packet must not limit the target for ever.
    private static let remoteEstimateLife: Int64 = 15_000_000
    private static let feedbackLife: Int64 = 10_000_000
    /// As a share of the target.
    private static let maximumRetransmissions = 0.25
    private static let publishInterval: Int64 = 100_000
    private static let silence: Int64 = 1_000_000
    /// A queue should drain in about this time, µs. At the path's capacity the queue and its delay would stay.
    private static let drainTime = 300_000.0
    /// Lowest share of the target while a queue drains; less would freeze the video.
    private static let leastShare = 0.5

    /// `range` and `start` are in bit/s. The start is clamped to the range, and the range to 10 Gbit/s.
    package init(range: ClosedRange<Int>, start: Int) {
        self.range = range.clamped(to: Self.sane)
        self.start = min(max(start, self.range.lowerBound), self.range.upperBound)
        delay = DelayBasedController(start: Double(self.start))
        startCheck = StartRateCheck(start: Double(self.start))
        loss = LossBasedController(start: Double(self.start), ceiling: Self.ceiling(self.range))
        target = BitrateTarget(target: self.start, estimate: self.start, reason: .start)
        latestEstimate = self.start
    }

    private static let sane = 1...10_000_000_000
    private static func ceiling(_ range: ClosedRange<Int>) -> Double { Double(range.upperBound) * 1.5 }

    /// Changes the range. A higher maximum is reached by growth and probes, as after the start.
    package mutating func setRange(_ range: ClosedRange<Int>, now: Int64) -> BitrateTarget? {
        self.range = range.clamped(to: Self.sane)
        loss.setCeiling(Self.ceiling(self.range))
        // A change of the application does not wait for the interval between two changes of the network.
        publishedAt = nil
        return publish(now)
    }

    /// Smoothed round trip without the remote peer's own delay, µs; nil before its first receiver report.
    package var pathRoundTrip: Int64? { reportedTrip.smoothed }
    /// Smoothed round trip from feedback, else from receiver reports, µs; nil before the first of them.
    package var roundTrip: Int64? { feedbackTrip ?? reportedTrip.smoothed }

    // MARK: Events; each returns a new target when one is due

    /// Handles one transport-cc message. `totalBytes` were sent so far.
    package mutating func feedback(_ feedback: ResolvedFeedback, totalBytes: UInt64, now: Int64) -> BitrateTarget? {
        count(totalBytes, now: now)
        if lastFeedback == nil { loss.lift() }
        let endsSilence = silences > 0 && feedback.received > 0
        if feedback.received > 0 {
            (lastFeedback, hasHadFeedback) = (now, true)
            unansweredSince = nil
            silences = 0
        }
        if let newest = feedback.newestSendTime, now > newest {
            let trip = now &- newest
            feedbackTrip = feedbackTrip.map { ($0 &* 3 &+ trip) / 4 } ?? trip
        }
        count(arrivalsOf: feedback)
        let trip = roundTrip ?? 100_000
        let signal = judge(feedback, roundTrip: trip, now: now)
        var delivered: Int?
        if !feedback.arrivals.isEmpty, !endsSilence {
            let latest = feedback.arrivals.last?.arrival ?? 0
            delivered = received.bitrate(at: latest)
            // A full path delivers its capacity; half a second ago it may have had another one.
            let capacity = signal == .overuse ? received.bitrate(at: latest, over: 200_000) : delivered
            let before = delay.estimate
            if case .refused(let rate) = startCheck.update(feedback, now: now), !delay.hasBackedOff {
                delay.startRefused(delivered: rate, now: now)
            }
            delay.update(signal, received: capacity, sent: sent.bitrate(at: now), roundTrip: trip, now: now)
            if delay.estimate < before { probes.backedOff(now) }
            if let proven = probes.update(feedback, roundTrip: trip, now: now), signal == .normal {
                delay.prove(proven.rate, isFull: proven.isFull)
                if loss.excess < LossBasedController.slightLoss { loss.prove(proven.rate) }
            }
        }
        let tried = sent.bitrate(at: now).map(Double.init)
        if endsSilence {
            // The outage has already lowered the target. Its losses say nothing about the capacity of the path.
            loss.forget()
            standing = StandingQueue()
            return publish(now)
        }
        loss.add(lost: feedback.lost, recovered: feedback.recovered, received: feedback.received)
        loss.update(
            current: sustained, sent: tried, delivered: delivered.map(Double.init),
            provenRate: provenRate(now),
            roundTrip: trip, now: now)
        return publish(now)
    }

    /// Handles one reception report about our media. It changes the estimate only without transport-cc feedback.
    package mutating func report(_ report: ReceptionReport, roundTrip: Int64?, totalBytes: UInt64, now: Int64)
        -> BitrateTarget?
    {
        count(totalBytes, now: now)
        let previous = highestReported
        // A report that does not advance repeats what was known, while nothing of ours arrives.
        if let previous, Int32(bitPattern: report.highestSequence &- previous) <= 0 { return publish(now) }
        highestReported = report.highestSequence
        let verdict = roundTrip.map { reportedTrip.update($0, now: now) } ?? .clear
        if let last = lastFeedback, now &- last > Self.feedbackLife {
            // Feedback has ceased although the remote peer still reports: continue with its receiver reports.
            lastFeedback = nil
            loss.backOff(to: sustained)
        }
        guard lastFeedback == nil else { return publish(now) }
        if let previous {
            let expected = Int(Int32(bitPattern: report.highestSequence &- previous))
            if expected > 0, expected < 32_768 {
                hasReports = true
                let lost = (Int(report.fractionLost) * expected + 128) / 256
                loss.add(lost: lost, received: expected - lost)
            }
        }
        let trip = reportedTrip.smoothed ?? 100_000
        let tried = sent.bitrate(at: now).map(Double.init)
        switch verdict {
        case .clear, .rising:
            // A rising round trip does not lower the estimate yet, but stops its growth.
            loss.update(
                current: sustained, sent: tried, provenRate: verdict == .clear ? provenRate(now) : 0,
                roundTrip: trip, atOnce: true, now: now)
        case .queueing:
            if lastReportBackOff.map({ now &- $0 > 500_000 &+ trip }) ?? true {
                lastReportBackOff = now
                loss.backOff(to: 0.85 * sustained)
            }
        }
        return publish(now)
    }

    /// Handles a REMB (draft-alvestrand-rmcat-remb-03), bit/s.
    package mutating func remoteEstimate(_ bitrate: Int, now: Int64) -> BitrateTarget? {
        remoteEstimate = (max(0, bitrate), now)
        return publish(now)
    }

    /// Counts retransmissions, which are among the bytes sent. Call it before `tick`.
    package mutating func retransmitted(totalBytes: UInt64, now: Int64) {
        retransmissionRate.add(Int(clamping: totalBytes &- lastRetransmittedBytes), at: now)
        lastRetransmittedBytes = totalBytes
        retransmissions = min(retransmissionRate.bitrate(at: now) ?? 0, Int(Self.maximumRetransmissions * sustained))
    }

    /// The next probe of the path, which begins now; nil: none is due, or its result could not be seen. Padding fills it up to
    /// its rate, and `probeEnded` ends it.
    package mutating func nextProbe(totalBytes: UInt64, now: Int64) -> ProbeCluster? {
        guard lastFeedback != nil, startCheck.isOver, silences == 0, standing.length == 0, !standing.stands,
            remoteEstimate == nil
        else { return nil }
        return probes.next(
            estimate: min(latestEstimate, range.upperBound), maximum: range.upperBound, totalBytes: totalBytes, now: now
        )
    }

    package mutating func probeEnded(totalBytes: UInt64, now: Int64) { probes.ended(totalBytes: totalBytes, now: now) }

    /// Handles the passing of time; call it a few times a second.
    package mutating func tick(totalBytes: UInt64, now: Int64) -> BitrateTarget? {
        count(totalBytes, now: now)
        if let since = unansweredSince, lastFeedback != nil, now &- since >= Self.silence {
            unansweredSince = now
            // Two halvings at most: ICE detects a dead path, and a short gap should not cost minutes of quality.
            if silences < 2 {
                silences += 1
                delay.silence(current: sustained, floor: Double(range.lowerBound))
            }
        }
        return publish(now)
    }

    // MARK: Estimates

    private mutating func judge(
        _ feedback: ResolvedFeedback, roundTrip: Int64, now: Int64
    ) -> DelayBasedController.Signal {
        guard
            let least = feedback.arrivals.min(by: { $0.arrival &- $0.sendTime < $1.arrival &- $1.sendTime })
        else { return .normal }
        let stood = standing.stands
        switch standing.update(
            oneWay: least.arrival &- least.sendTime, ownTime: Int64(Double(least.size) * 8e6 / sustained),
            roundTrip: roundTrip, isSearching: !delay.hasBackedOff, now: now)
        {
        case .short: return standing.length > 0 ? .hold : .normal
        case .stands:
            if !stood { beforeQueue = delay.estimate }
            return .overuse
        case .isForeign:
            delay.raise(to: beforeQueue)
            return .normal
        }
    }

    private mutating func count(arrivalsOf feedback: ResolvedFeedback) {
        if feedback.unreportedBytes > 0, let next = feedback.arrivals.first?.arrival {
            // They arrived at any time since the last packet of which the time is known.
            let passed = lastArrival.map { min(500_000, max(0, next &- $0)) } ?? 0
            for part in 1...5 as ClosedRange<Int64> {
                received.add(feedback.unreportedBytes / 5, at: next &- passed * part / 5)
            }
        }
        lastArrival = feedback.arrivals.last?.arrival ?? lastArrival
        for packet in feedback.arrivals { received.add(packet.size, at: packet.arrival) }
    }

    private mutating func count(_ totalBytes: UInt64, now: Int64) {
        let step = totalBytes &- (lastTotal ?? totalBytes)
        lastTotal = totalBytes
        sent.add(Int(clamping: step), at: now)
        if step > 0, unansweredSince == nil { unansweredSince = now }
    }

    /// Upper limit for growth, from the rate that was actually sent: without traffic an estimate must not climb.
    private mutating func provenRate(_ now: Int64) -> Double {
        let tried = 1.5 * Double(sent.bitrate(at: now) ?? 0) + 10_000
        return delay.hasBackedOff || lastReportBackOff != nil ? tried : max(Double(start), tried)
    }

    /// The latest estimate within the range: the target before it is reduced for a queue and for retransmissions.
    private var sustained: Double { Double(clamped(latestEstimate)) }

    private func clamped(_ bitrate: Int) -> Int { min(max(bitrate, range.lowerBound), range.upperBound) }

    private mutating func publish(_ now: Int64) -> BitrateTarget? {
        if let bound = remoteEstimate, now &- bound.time > Self.remoteEstimateLife { remoteEstimate = nil }
        var next = decide()
        // An encoder at its coarsest quantizer sends more than the configured maximum. Loss of that traffic shows that
        // the network is the limit.
        let overflows = loss.excess > LossBasedController.highLoss && sent.bitrate(at: now) ?? 0 > range.upperBound
        if isQueueing || overflows || next.estimate < min(latestEstimate, range.upperBound) {
            isLimitedByNetwork = true
        } else if next.estimate >= range.upperBound {
            isLimitedByNetwork = false
        }
        latestEstimate = next.estimate
        next.isLimitedByNetwork = isLimitedByNetwork
        guard next != target else { return nil }
        let isNews =
            next.reason != target.reason || next.isLimitedByNetwork != target.isLimitedByNetwork
            || abs(next.target - target.target) * 50 >= target.target
        guard isNews, publishedAt.map({ now &- $0 >= Self.publishInterval }) ?? true else { return nil }
        target = next
        publishedAt = now
        return next
    }

    /// True if feedback still arrives and shows a standing queue.
    private var isQueueing: Bool { lastFeedback != nil && standing.stands }

    private func decide() -> BitrateTarget {
        var estimate = Double.infinity
        var reason = BitrateTarget.Reason.start
        if lastFeedback != nil {
            (estimate, reason) = (delay.estimate, .delay)
            if loss.estimate < estimate { (estimate, reason) = (loss.estimate, .loss) }
        } else if hasReports || hasHadFeedback || lastReportBackOff != nil {
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
        let target = clamped(whole - retransmissions)
        guard lastFeedback != nil, standing.length > 0 else {
            return BitrateTarget(target: target, estimate: whole, reason: reason)
        }
        let share = max(Self.leastShare, 1 - Double(standing.length) / Self.drainTime)
        return BitrateTarget(
            target: clamped(Int(share * Double(target))), sustained: target, estimate: whole, reason: .delay)
    }
}
