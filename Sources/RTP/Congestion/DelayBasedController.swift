/// Additive or multiplicative increase and multiplicative decrease (draft-ietf-rmcat-gcc-02 section 5.5), as
/// `StandingQueue` signals.
package struct DelayBasedController: Sendable {
    package enum Signal: Sendable, Equatable {
        case normal
        /// A queue grows or stands.
        case overuse
        /// Do not grow.
        case hold
    }

    /// beta of the draft.
    private static let backOff = 0.85
    /// Growth per second while the capacity is unknown. The draft's 8 % would take 20 s from 0.5 to 2.5 Mbit/s; at this one,
    /// the queue of a path whose capacity is reached within two feedback intervals is 20 ms long.
    private static let growth = 0.3
    /// Growth before the first overuse: good quality soon matters more than one short queue.
    private static let firstGrowth = 4.0
    /// A path on which a smaller share of what is sent arrives is full.
    private static let fullShare = 0.75
    /// kbit/s; a received rate that differs by more shows another capacity. Windows of half a second differ by a frame of
    /// eleven, and a capacity that is forgotten is exceeded by a third before the queue shows it.
    private static func change(of capacity: Double) -> Double { max(0.1 * capacity, 2 * capacity.squareRoot()) }

    /// A_hat, bit/s.
    package private(set) var estimate: Double
    /// True after the first overuse or silence. Before that, the estimate may climb to the start value without
    /// evidence.
    package private(set) var hasBackedOff = false
    private let start: Double
    private var lastUpdate: Int64?
    private var lastDecrease: Int64?
    /// The capacity at the last overuse: average of R_hat, in kbit/s.
    private var capacity: Double?

    package init(start: Double) {
        self.start = start
        estimate = start
    }

    /// `received` is R_hat, nil while it is unknown; `sent` is the rate that we sent in the same time. Times in µs.
    package mutating func update(_ signal: Signal, received: Int?, sent: Int?, roundTrip: Int64, now: Int64) {
        // Lost feedback is no evidence.
        let elapsed = lastUpdate.map { min(0.25, max(0, Double(now &- $0) / 1e6)) } ?? 0
        lastUpdate = now
        switch signal {
        case .hold: break
        case .normal: increase(received: received, elapsed: elapsed, roundTrip: roundTrip)
        case .overuse: decrease(received: received, sent: sent, roundTrip: roundTrip, now: now)
        }
    }

    /// Halves the estimate, because feedback has ceased although we send: the path is down or has a long queue.
    package mutating func silence(current: Double, floor: Double) {
        hasBackedOff = true
        estimate = min(estimate, max(floor, current / 2))
    }

    /// The path has delivered this rate, bit/s, of a higher start rate.
    package mutating func startRefused(delivered: Double, now: Int64) {
        (hasBackedOff, lastDecrease) = (true, now)
        note(delivered / 1000)
        estimate = min(estimate, Self.backOff * delivered)
    }

    /// Takes over the rate, bit/s, that a probe has shown the path to carry.
    /// - Parameter isFull: it carries no more.
    package mutating func prove(_ rate: Double, isFull: Bool) {
        guard rate > estimate else { return }
        if let known = capacity, rate / 1000 > known + Self.change(of: known) { capacity = isFull ? rate / 1000 : nil }
        estimate = rate
    }

    /// Takes reductions back that have changed nothing.
    package mutating func raise(to rate: Double) { estimate = max(estimate, rate) }

    private mutating func increase(received: Int?, elapsed: Double, roundTrip: Int64) {
        guard let received else { return }
        let rate = Double(received) / 1000
        if let known = capacity, rate > known + Self.change(of: known) {
            // The path carries more than it did, so it has changed: search its limit faster.
            capacity = nil
        }
        let next: Double
        if capacity != nil {
            // A quarter of a packet per response time, at 30 frames a second: with half a packet, as in the draft, queues
            // are a third longer and the throughput is 1 % higher.
            let frame = estimate / 30
            let packets = max(1, (frame / (1150 * 8)).rounded(.up))
            let response = 4 * (0.1 + Double(roundTrip) / 1e6)
            next = estimate + max(1000 * elapsed, frame / packets * elapsed / response)
        } else {
            next = estimate * (1 + elapsed * (hasBackedOff ? Self.growth : Self.firstGrowth)) + 1000 * elapsed
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
        // We did not fill the path, so the received rate says little about its capacity, unless less arrives than is sent.
        if let sent, Double(sent) < 0.5 * estimate, Double(received) > Self.fullShare * Double(sent) {
            next = max(next, 0.5 * estimate)
        }
        note(Double(received) / 1000)
        estimate = min(estimate, next)
    }

    private mutating func note(_ rate: Double) {
        let known = capacity ?? rate
        capacity = rate < known - Self.change(of: known) ? rate : known + 0.05 * (rate - known)
    }
}
