/// Loss-based control (draft-ietf-rmcat-gcc-02 section 6): above 10 % loss the rate falls by half the loss, below 2 %
/// it grows, and in between it stays, because that much loss is normal on a radio link. Two rules are not in the draft:
/// at very high loss the rate drops straight to what came through, and loss that is the same at a lower rate is the
/// path's own: it is deducted from then on, and the reduction is taken back.
package struct LossBasedController: Sendable {
    /// Growth per second; the draft adds 5 % with each report, at whatever interval.
    private static let growth = 0.3
    /// With receiver reports alone, which show late that it was too much.
    private static let slowGrowth = 0.08
    private static let flood = 0.35
    /// More loss than this, beyond the path's own, is the network's limit, not its noise.
    static let highLoss = 0.1
    /// Less is no reason to stop growing.
    static let slightLoss = 0.02
    private static let interval: Int64 = 250_000
    /// Packets needed for a judgement; a single lost one of fewer would be above 5 %.
    private static let leastPackets = 20

    /// As_hat, bit/s.
    package private(set) var estimate: Double
    /// Loss in the last interval that was judged, 0…1.
    package private(set) var loss = 0.0
    private var ceiling: Double

    private struct Count {
        var lost = 0
        var total = 0
    }
    private var currentInterval = Count()
    /// Judged one interval later, when packets that were only late have arrived.
    private var previousInterval: Count?
    private var intervalStart: Int64?
    private var lastJudged: Int64?
    private var lastDecrease: Int64?
    private var smoothed = 0.0
    /// The loss of the path itself, 0…1.
    private var inherent = 0.0
    /// The loss that the rate may have caused, 0…1.
    package var excess: Double { max(0, loss - inherent) }

    /// A reduction, to find out whether the loss depends on the rate.
    private struct Trial {
        /// When the reduction began.
        var rate: Double
        var loss: Double
        /// At the lower rate.
        var count = Count()
    }
    private var trial: Trial?
    /// The share of the rate at which a trial is concluded, with this many packets.
    private static let trialShare = 0.8
    private static let trialPackets = 150

    package init(start: Double, ceiling: Double) {
        estimate = start
        self.ceiling = ceiling
    }

    package mutating func setCeiling(_ ceiling: Double) {
        self.ceiling = ceiling
        estimate = min(estimate, ceiling)
    }

    /// Counts packets with a fate that became known. `recovered` ones were counted as lost before and are among
    /// `received`.
    package mutating func add(lost: Int, recovered: Int = 0, received: Int) {
        currentInterval.lost += lost
        currentInterval.total += lost + received - recovered
        let older = min(recovered, previousInterval?.lost ?? 0)
        previousInterval?.lost -= older
        currentInterval.lost = max(0, currentInterval.lost - (recovered - older))
    }

    /// Discards the counts, because the loss has another cause.
    package mutating func forget() { (currentInterval, previousInterval, intervalStart) = (Count(), nil, nil) }

    /// Judges the loss once there are enough packets. `current` is the target in force, `sent` the rate that we sent,
    /// `delivered` the rate that arrived (nil: what loss leaves of `sent`), `provenRate` the upper limit for growth.
    /// Times in µs. `atOnce` skips the wait for late packets, for counts that cannot change.
    package mutating func update(
        current: Double, sent: Double?, delivered: Double? = nil, provenRate: Double, roundTrip: Int64,
        atOnce: Bool = false,
        now: Int64
    ) {
        let from = intervalStart ?? now
        intervalStart = from
        guard now &- from >= Self.interval || atOnce, currentInterval.total >= Self.leastPackets else { return }
        intervalStart = now
        let judged = atOnce ? currentInterval : previousInterval
        previousInterval = currentInterval
        currentInterval = Count()
        guard let judged, judged.total > 0 else { return }
        loss = min(1, Double(judged.lost) / Double(judged.total))
        smoothed += 0.5 * (loss - smoothed)
        let elapsed = min(1, lastJudged.map { Double(now &- $0) / 1e6 } ?? 0)
        lastJudged = now
        if smoothed < inherent { inherent += 0.05 * (smoothed - inherent) }
        let hasEffect = lastDecrease.map { now &- $0 >= 300_000 &+ roundTrip } ?? true
        if let trial, estimate <= Self.trialShare * trial.rate, loss <= Self.flood {
            if hasEffect { conclude(trial, judged) }
        } else if excess > Self.highLoss {
            // The effect of a decrease takes a round trip to show.
            guard hasEffect else { return }
            lastDecrease = now
            decrease(current: current, delivered: delivered ?? sent.map { $0 * (1 - loss) })
        } else if excess < Self.slightLoss {
            let next = estimate * (1 + (atOnce ? Self.slowGrowth : Self.growth) * elapsed) + 1000 * elapsed
            estimate = max(estimate, min(next, provenRate, ceiling))
        }
    }

    private mutating func decrease(current: Double, delivered: Double?) {
        let from = min(estimate, current)
        var next = from * (1 - 0.5 * excess)
        if loss > Self.flood, smoothed > 0.3 {
            // The loss is so high that the rate that came through is the capacity: go there at once.
            if let delivered { next = min(next, max(delivered, from / 4)) }
            trial = nil
        } else if let trial {
            next = max(next, min(from, 0.95 * Self.trialShare * trial.rate))
        } else {
            trial = Trial(rate: from, loss: smoothed)
        }
        // The loss is older than the reaction of the delay-based controller: do not reduce twice.
        if let delivered { next = max(next, min(from, 0.85 * delivered)) }
        estimate = min(estimate, next)
    }

    /// Compares the loss at the lower rate with that which the rate would explain.
    private mutating func conclude(_ trial: Trial, _ judged: Count) {
        let count = Count(lost: trial.count.lost + judged.lost, total: trial.count.total + judged.total)
        self.trial?.count = count
        guard count.total >= Self.trialPackets else { return }
        self.trial = nil
        let loss = Double(count.lost) / Double(count.total)
        let explained = max(0, 1 - (1 - trial.loss) * trial.rate / max(estimate, 1))
        guard loss > (explained + trial.loss) / 2, loss < Self.flood else { return }
        (inherent, smoothed) = (loss, loss)
        estimate = min(max(estimate, trial.rate), ceiling)
    }

    /// Removes the limit, because another controller takes over; the estimate falls again at the next loss.
    package mutating func lift() { estimate = ceiling }

    /// Takes over what a probe has shown the path to carry.
    package mutating func prove(_ rate: Double) { estimate = max(estimate, min(rate, ceiling)) }

    package mutating func backOff(to rate: Double) { estimate = min(estimate, rate) }
}
