// The time line of what leaves: that of arrival, or, moved back by the measured delay, that of the input. A value.
package import GStreamerKit

package struct OutputTimeline: Sendable {
    /// Least latency to report; nil where frames keep the time of their arrival.
    private let minimum: ClockTime?
    /// By which arrival is moved back, ns; it follows `target`, a little with each frame.
    private var shift: Int64 = 0
    private var target: Int64?
    /// The newest media path whose delay is known.
    private var settledRank = -1
    /// Only ever rises: sinks that were told once are told again only when they must be.
    private var promised: ClockTime = 0
    private var hasShown = false

    package init(minimumLatency: ClockTime? = nil) { minimum = minimumLatency }

    package var isCapture: Bool { minimum != nil }

    /// Whether pictures of this media path can be shown at their right time.
    package func isSettled(rank: Int) -> Bool { !isCapture || settledRank >= rank }

    /// The delay of a media path's pictures, from the input's running time to their arrival.
    /// - Parameter base: latency from arrival on.
    /// - Returns: whether more latency has to be reported than was so far.
    package mutating func settle(_ delay: Int64, rank: Int, base: ClockTime) -> Bool {
        guard isCapture, rank >= settledRank else { return false }
        // Another path is another delay: nothing to be smoothed.
        if rank > settledRank || !hasShown { shift = delay }
        settledRank = rank
        target = delay
        let needed = Self.sum(base, delay)
        guard needed > floor(base) else { return false }
        promised = (needed &+ needed / 10) / 50_000_000 &* 50_000_000 &+ 50_000_000
        return true
    }

    /// What the LATENCY query is answered.
    package func latency(base: ClockTime) -> ClockTime {
        guard isCapture else { return base }
        return max(floor(base), Self.sum(base, target ?? 0))
    }

    private func floor(_ base: ClockTime) -> ClockTime { max(promised, minimum ?? 0, base) }

    /// Where what arrived then belongs; also what the line stands at by that running time.
    package func moved(_ time: ClockTime, base: ClockTime) -> ClockTime { Self.move(time, by: shift(base: base)) }

    /// By how much arrival is moved back, ns; before anything is measured, as far as the least latency allows.
    package func shift(base: ClockTime) -> Int64 {
        guard isCapture else { return 0 }
        let least = latency(base: base)
        return target == nil ? Int64(clamping: least &- min(base, least)) : shift
    }

    package var isMeasured: Bool { target != nil }

    package static func move(_ time: ClockTime, by shift: Int64) -> ClockTime {
        shift >= 0 ? time &- min(time, shift.magnitude) : time &+ shift.magnitude
    }

    /// A frame has left. Small changes of the delay are spread over several; a large one is true, and counts at once.
    package mutating func frameLeft(interval: ClockTime) {
        hasShown = true
        guard let target else { return }
        let left = target &- shift
        let step = min(interval, 1_000_000_000) / 8
        let isLarge = left.magnitude > 16 &* step
        shift = isLarge || left.magnitude <= step ? target : left > 0 ? shift &+ Int64(step) : shift &- Int64(step)
    }

    private static func sum(_ base: ClockTime, _ delay: Int64) -> ClockTime {
        base &+ ClockTime(max(0, delay))
    }
}

/// What sound goes by: a change of the pictures' delay counts when it has lasted for a second, for samples left out are
/// heard, and a picture or two that come late are not seen. Not so at the beginning, when a service warms up.
package struct SteadyShift: Sendable {
    private static let patience: ClockTime = 1_000_000_000
    private static let warmUp: ClockTime = 5_000_000_000
    private static let tolerance: UInt64 = 5_000_000
    private var current: Int64?
    private var wasMeasured = false
    private var began: ClockTime = 0
    private var candidate: (shift: Int64, since: ClockTime)?

    package init() {}

    package mutating func follow(_ shift: Int64, isMeasured: Bool, now: ClockTime) -> Int64 {
        guard let current, isMeasured == wasMeasured else {
            (self.current, candidate, wasMeasured, began) = (shift, nil, isMeasured, now)
            return shift
        }
        guard !isMeasured || now < began || now &- began > Self.warmUp else {
            self.current = shift
            return shift
        }
        guard (shift &- current).magnitude > Self.tolerance else {
            candidate = nil
            return current
        }
        guard let known = candidate, (shift &- known.shift).magnitude <= Self.tolerance, now >= known.since else {
            candidate = (shift, now)
            return current
        }
        guard now &- known.since >= Self.patience else { return current }
        (self.current, candidate) = (shift, nil)
        return shift
    }
}
