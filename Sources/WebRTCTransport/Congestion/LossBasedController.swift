/// Loss-based control (draft-ietf-rmcat-gcc-02 section 6): above 10 % loss the rate falls by half the loss, below 2 %
/// it grows, and in between it stays, because that much loss is normal on a radio link. Two rules are not in the draft:
/// at very high loss the rate drops straight to what came through, and loss that does not depend on the rate does not
/// lower it further.
package struct LossBasedController: Sendable {
    /// Per second, as in section 5.5; the draft adds 5 % with each report, at whatever interval.
    private static let growth = 0.08
    private static let flood = 0.35
    /// More loss than this is the network's limit, not its noise.
    static let highLoss = 0.1
    private static let interval: Int64 = 250_000
    /// Packets needed for a judgement; a single lost one of fewer would be above 5 %.
    private static let leastPackets = 20

    /// As_hat, bit/s.
    package private(set) var estimate: Double
    /// Loss in the last interval that was judged, 0…1.
    package private(set) var loss = 0.0
    private let ceiling: Double

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
    /// The rate at which a moderate loss above 10 % began.
    private var episode: Double?

    package init(start: Double, ceiling: Double) {
        estimate = start
        self.ceiling = ceiling
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
        if loss > Self.highLoss {
            // The effect of a decrease takes a round trip to show.
            if let last = lastDecrease, now &- last < 300_000 &+ roundTrip { return }
            lastDecrease = now
            decrease(current: current, delivered: delivered ?? sent.map { $0 * (1 - loss) })
        } else if loss < 0.02 {
            if smoothed < 0.01 { episode = nil }
            let next = estimate * (1 + Self.growth * elapsed) + 1000 * elapsed
            estimate = max(estimate, min(next, provenRate, ceiling))
        }
    }

    private mutating func decrease(current: Double, delivered: Double?) {
        let from = min(estimate, current)
        var next = from * (1 - 0.5 * loss)
        if loss > Self.flood, smoothed > 0.3 {
            // The loss is so high that the rate that came through is the capacity: go there at once.
            if let delivered { next = min(next, max(delivered, from / 4)) }
            if smoothed > Self.flood { episode = nil }
        } else {
            // At up to 35 % loss the path carries 0.65 of the rate at which the loss began. If the rate were the cause,
            // 0.6 of it would fit; so the loss has another cause, and a lower rate would not help.
            let began = episode ?? from
            episode = began
            next = max(next, min(from, 0.6 * began))
        }
        // The loss is older than the reaction of the delay-based controller: do not reduce twice.
        if let delivered { next = max(next, min(from, 0.85 * delivered)) }
        estimate = min(estimate, next)
    }

    /// Removes the limit, because another controller takes over; the estimate falls again at the next loss.
    package mutating func lift() { estimate = ceiling }

    /// Lowers the estimate for another reason than loss.
    package mutating func backOff(to rate: Double) { estimate = min(estimate, rate) }
}
