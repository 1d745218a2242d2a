/// Additive/multiplicative increase, multiplicative decrease by the signal of the detector
/// (draft-ietf-rmcat-gcc-02 section 5.5).
package struct DelayBasedController: Sendable {
    private enum State { case hold, increase, decrease }

    /// beta.
    private static let backOff = 0.85
    /// eta per second.
    private static let growth = 1.08
    /// Before the first over-use: good quality soon matters more than a queue of some frames once.
    private static let firstGrowth = 1.3

    /// A_hat, bit/s.
    package private(set) var estimate: Double
    /// Over-use was seen at least once: the start value is no longer a promise.
    package private(set) var hasBackedOff = false
    private let start: Double
    private var state = State.increase
    private var lastUpdate: Int64?
    private var lastDecrease: Int64?
    /// Where over-use happened: average and relative variance of R_hat, in kbit/s.
    private var capacity: Double?
    private var variance = 0.4

    package init(start: Double) {
        self.start = start
        estimate = start
    }

    /// `received` is R_hat, nil as long as it is not known; `sent` what left us in the same time; times in µs.
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

    /// Feedback has ceased although we send: somewhere there is no path, or a long queue.
    package mutating func silence(current: Double, floor: Double) {
        hasBackedOff = true
        estimate = min(estimate, max(floor, current / 2))
    }

    private mutating func increase(received: Int?, elapsed: Double, roundTrip: Int64) {
        guard let received else { return }
        let rate = Double(received) / 1000
        if let known = capacity, rate > known + 3 * deviation(known) {
            // More than there ever was: the path has changed, look for its end faster.
            capacity = nil
        }
        let next: Double
        if capacity != nil {
            // One packet per response time; at 30 frames a second.
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
        // Without traffic there is no evidence; the start value needs none as long as nothing speaks against it.
        let evidence = 1.5 * Double(received) + 10_000
        let cap = hasBackedOff ? evidence : max(start, evidence)
        estimate = max(estimate, min(next, cap))
    }

    private mutating func decrease(received: Int?, sent: Int?, roundTrip: Int64, now: Int64) {
        // Once per round trip: before that the far side cannot have seen the last one.
        if let last = lastDecrease, now &- last < min(200_000, max(50_000, roundTrip)) { return }
        lastDecrease = now
        hasBackedOff = true
        guard let received else {
            estimate *= Self.backOff
            return
        }
        var next = Self.backOff * Double(received)
        // We did not fill the path: what arrived says little about what it can carry.
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
