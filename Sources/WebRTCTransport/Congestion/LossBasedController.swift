/// Loss-based control (draft-ietf-rmcat-gcc-02 section 6): above 10 % loss down by half of it, below 2 % up, between
/// them nothing: that much loss is normal on a radio link. Two things are not in the draft: a flood goes straight to
/// what came through, and loss that does not answer to the rate is not answered by the rate.
package struct LossBasedController: Sendable {
    /// The draft adds 5 % with each report, whenever that comes; this is per second, as in section 5.5.
    private static let growth = 0.08
    private static let flood = 0.35
    /// More than this is the network's limit, not its noise.
    static let highLoss = 0.1
    private static let interval: Int64 = 250_000
    /// One lost packet of fewer would be above 5 %.
    private static let leastPackets = 20

    /// As_hat, bit/s.
    package private(set) var estimate: Double
    /// 0…1, of the last interval that was judged.
    package private(set) var loss = 0.0
    private let ceiling: Double

    private struct Count {
        var lost = 0
        var total = 0
    }
    private var fresh = Count()
    /// Judged one interval later, when what was only late has come.
    private var ripe: Count?
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

    /// Packets whose fate became known. `recovered` were counted as lost before, and are among `received`.
    package mutating func add(lost: Int, recovered: Int = 0, received: Int) {
        fresh.lost += lost
        fresh.total += lost + received - recovered
        let older = min(recovered, ripe?.lost ?? 0)
        ripe?.lost -= older
        fresh.lost = max(0, fresh.lost - (recovered - older))
    }

    /// Forgets what was counted: it has another explanation.
    package mutating func forget() { (fresh, ripe, intervalStart) = (Count(), nil, nil) }

    /// Judges once there is enough to judge. `current` is the target in force, `sent` the rate that left us,
    /// `delivered` the rate that arrived (nil: what loss leaves of `sent`), `evidence` a rate beyond which nothing has
    /// been tried; times in µs. `atOnce` for counts that cannot change.
    package mutating func update(
        current: Double, sent: Double?, delivered: Double? = nil, evidence: Double, roundTrip: Int64,
        atOnce: Bool = false,
        now: Int64
    ) {
        let from = intervalStart ?? now
        intervalStart = from
        guard now &- from >= Self.interval || atOnce, fresh.total >= Self.leastPackets else { return }
        intervalStart = now
        let judged = atOnce ? fresh : ripe
        ripe = fresh
        fresh = Count()
        guard let judged, judged.total > 0 else { return }
        loss = min(1, Double(judged.lost) / Double(judged.total))
        smoothed += 0.5 * (loss - smoothed)
        let elapsed = min(1, lastJudged.map { Double(now &- $0) / 1e6 } ?? 0)
        lastJudged = now
        if loss > Self.highLoss {
            // The answer to a decrease takes a round trip to come back.
            if let last = lastDecrease, now &- last < 300_000 &+ roundTrip { return }
            lastDecrease = now
            decrease(current: current, delivered: delivered ?? sent.map { $0 * (1 - loss) })
        } else if loss < 0.02 {
            if smoothed < 0.01 { episode = nil }
            let next = estimate * (1 + Self.growth * elapsed) + 1000 * elapsed
            estimate = max(estimate, min(next, evidence, ceiling))
        }
    }

    private mutating func decrease(current: Double, delivered: Double?) {
        let from = min(estimate, current)
        var next = from * (1 - 0.5 * loss)
        if loss > Self.flood, smoothed > 0.3 {
            // So much that what came through is the capacity: go there at once, not by halves.
            if let delivered { next = min(next, max(delivered, from / 4)) }
            if smoothed > Self.flood { episode = nil }
        } else {
            // Had the link been too small for the rate at which this began, it would have fit by now, since
            // 0.6 / (1 - 0.35) < 1. The loss is not ours; going lower would not help anybody.
            let began = episode ?? from
            episode = began
            next = max(next, min(from, 0.6 * began))
        }
        // The loss is older than what the delay-based controller has done about it.
        if let delivered { next = max(next, min(from, 0.85 * delivered)) }
        estimate = min(estimate, next)
    }

    /// Another controller is in charge from here: this one limits nothing before it sees loss.
    package mutating func lift() { estimate = ceiling }

    /// Back-off for another reason than loss.
    package mutating func backOff(to rate: Double) { estimate = min(estimate, rate) }
}
