/// Detects a queue by the round trip, for a remote peer that reports no arrival times. Coarse, because receiver reports
/// are rare.
package struct RoundTripMonitor: Sendable {
    package enum Verdict: Sendable, Equatable { case clear, rising, queueing }

    /// Smoothed round trip, µs; nil before the first report.
    package private(set) var smoothed: Int64?
    private var baseline = DelayBaseline()
    private var highInARow = 0
    package init() {}

    /// All times in µs. Two reports in a row must agree before the result is `queueing`.
    package mutating func update(_ roundTrip: Int64, now: Int64) -> Verdict {
        smoothed = smoothed.map { ($0 &* 3 &+ roundTrip) / 4 } ?? roundTrip
        let rise = baseline.rise(of: roundTrip, now: now)
        guard rise > 150_000 else {
            highInARow = 0
            return rise > 50_000 ? .rising : .clear
        }
        highInARow = min(2, highInARow + 1)
        return highInARow >= 2 ? .queueing : .rising
    }
}
