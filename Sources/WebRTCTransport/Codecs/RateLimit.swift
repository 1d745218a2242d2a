package import GStreamerKit

/// Keeps the average frame rate below a limit. A value; running times in ns.
package struct RateLimit: Sendable {
    /// Shortest average time between two frames; 0: no limit.
    package var interval: ClockTime = 0
    /// Time from which the next frame passes.
    private var nextDue: ClockTime?

    package init(interval: ClockTime = 0) { self.interval = interval }

    /// - Parameter framesPerSecond: nil or 0: no limit.
    package mutating func set(framesPerSecond: Int?) {
        interval = framesPerSecond.flatMap { $0 > 0 ? 1_000_000_000 / UInt64($0) : nil } ?? 0
    }

    /// The next frame passes in any case.
    package mutating func restart() { nextDue = nil }

    /// A frame up to an eighth of an interval early still counts as due, and one up to 8 ms: cameras and the times of files
    /// vary by that at any rate.
    package mutating func passes(_ time: ClockTime) -> Bool {
        guard interval > 0 else { return true }
        let early = max(interval / 8, min(interval / 4, 8_000_000))
        if let nextDue, time &+ early < nextDue, nextDue &- time < 4 &* interval { return false }
        // A variable rate may save up one frame, so that two that are close together do not count as too many.
        let next = nextDue.map { $0 &+ interval } ?? time &+ interval
        nextDue = next > time &+ 2 &* interval ? time &+ interval : max(next, time)
        return true
    }
}
