package import GStreamerKit

/// Leaves frames out so that no more than a number of them pass in a second. A value.
package struct RateLimit: Sendable {
    /// Time between two frames, ns; 0: no limit.
    private var interval: ClockTime = 0
    /// From which the next frame passes.
    private var nextDue: ClockTime?

    package init() {}

    /// - Parameter framesPerSecond: nil or 0: no limit.
    package mutating func set(framesPerSecond: Int?) {
        interval = framesPerSecond.flatMap { $0 > 0 ? 1_000_000_000 / UInt64($0) : nil } ?? 0
    }

    /// Lets the next frame pass, whatever its time is.
    package mutating func restart() { nextDue = nil }

    /// Keeps the average rate below the limit: a frame up to an eighth of an interval early still counts as due.
    package mutating func isDue(_ time: ClockTime?) -> Bool {
        guard let time, interval > 0 else { return true }
        if let due = nextDue, time &+ interval / 8 < due, due &- time < 4 &* interval { return false }
        let next = (nextDue ?? time) &+ interval
        nextDue = next &+ interval < time || next > time &+ 2 &* interval ? time &+ interval : next
        return true
    }
}
