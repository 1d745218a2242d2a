/// Additive or multiplicative increase and multiplicative decrease, as the detector signals (draft-ietf-rmcat-gcc-02
/// section 5.5).
package struct DelayBasedController: Sendable {
    private enum State { case hold, increase, decrease }

    /// beta of the draft.
    private static let backOff = 0.85
    /// eta of the draft, per second.
    private static let growth = 1.08
    /// eta before the first overuse: good quality soon matters more than one short queue.
    private static let firstGrowth = 1.3

    /// A_hat, bit/s.
    package private(set) var estimate: Double
    /// True after the first overuse or silence. Before that, the estimate may climb to the start value without
    /// evidence.
    package private(set) var hasBackedOff = false
    private let start: Double
    private var state = State.increase
    private var lastUpdate: Int64?
    private var lastDecrease: Int64?
    /// The capacity at the last overuse: average and relative variance of R_hat, in kbit/s.
    private var capacity: Double?
    private var variance = 0.4

    package init(start: Double) {
        self.start = start
        estimate = start
    }

    /// `received` is R_hat, nil while it is unknown; `sent` is the rate that we sent in the same time. Times in µs.
    package mutating func update(
        _ signal: OveruseDetector.Signal, received: Int?, sent: Int?, roundTrip: Int64, now: Int64
    ) {
        switch signal {
        case .overuse: state = .decrease
        case .underuse: state = .hold
        case .normal: if state == .hold { state = .increase }
        }
        let elapsed = lastUpdate.map { min(1, max(0, Double(now &- $0) / 1e6)) } ?? 0
        lastUpdate = now
        switch state {
        case .hold: break
        case .increase: increase(received: received, elapsed: elapsed, roundTrip: roundTrip)
        case .decrease:
            decrease(received: received, sent: sent, roundTrip: roundTrip, now: now)
            state = .hold
        }
    }

    /// Halves the estimate, because feedback has ceased although we send: the path is down or has a long queue.
    package mutating func silence(current: Double, floor: Double) {
        hasBackedOff = true
        estimate = min(estimate, max(floor, current / 2))
    }

    private mutating func increase(received: Int?, elapsed: Double, roundTrip: Int64) {
        guard let received else { return }
        let rate = Double(received) / 1000
        if let known = capacity, rate > known + 3 * deviation(known) {
            // The path carries more than it did, so it has changed: search its limit faster.
            capacity = nil
        }
        let next: Double
        if capacity != nil {
            // One packet per response time, at 30 frames a second.
            let frame = estimate / 30
            let packets = max(1, (frame / (1150 * 8)).rounded(.up))
            let response = 0.1 + Double(roundTrip) / 1e6
            next = estimate + max(1000 * elapsed, frame / packets * elapsed / response)
        } else {
            var factor = 1.0
            // eta^elapsed for elapsed <= 1 (the first terms of its binomial series: within half a per cent).
            let x = (hasBackedOff ? Self.growth : Self.firstGrowth) - 1
            factor += elapsed * x + elapsed * (elapsed - 1) / 2 * x * x
            next = estimate * factor + 1000 * elapsed
        }
        // Growth needs evidence, that is received traffic. Before the first back-off the start value needs none.
        let provenRate = 1.5 * Double(received) + 10_000
        let cap = hasBackedOff ? provenRate : max(start, provenRate)
        estimate = max(estimate, min(next, cap))
    }

    private mutating func decrease(received: Int?, sent: Int?, roundTrip: Int64, now: Int64) {
        // Decrease once per round trip: before that, the feedback does not reflect the last decrease.
        if let last = lastDecrease, now &- last < min(200_000, max(50_000, roundTrip)) { return }
        lastDecrease = now
        hasBackedOff = true
        guard let received else {
            estimate *= Self.backOff
            return
        }
        var next = Self.backOff * Double(received)
        // We did not fill the path, so the received rate says little about its capacity.
        if let sent, Double(sent) < 0.5 * estimate { next = max(next, 0.5 * estimate) }
        note(Double(received) / 1000)
        estimate = min(estimate, next)
    }

    private mutating func note(_ rate: Double) {
        guard let known = capacity else {
            capacity = rate
            return
        }
        if rate < known - 3 * deviation(known) {
            capacity = rate
            return
        }
        let mean = known + 0.05 * (rate - known)
        let difference = mean - rate
        variance = 0.95 * variance + 0.05 * difference * difference / max(1, mean)
        variance = min(2.5, max(0.4, variance))
        capacity = mean
    }

    private func deviation(_ known: Double) -> Double { (variance * known).squareRoot() }
}
