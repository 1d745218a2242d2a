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
    package func moved(_ time: ClockTime, base: ClockTime) -> ClockTime {
        guard isCapture else { return time }
        // Before anything is measured, as far back as the least latency allows.
        let least = latency(base: base)
        let shift = target == nil ? Int64(clamping: least &- min(base, least)) : shift
        return shift >= 0 ? time &- min(time, shift.magnitude) : time &+ shift.magnitude
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
