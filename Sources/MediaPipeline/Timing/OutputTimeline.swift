// The time line of the output: the frames' arrival time or, shifted back by the measured delay, the input's running
// time. A value.
package import GStreamerKit

package struct OutputTimeline: Sendable {
    /// Minimum latency to report, ns; nil if frames keep their arrival time.
    private let minimum: ClockTime?
    /// Subtracted from arrival times, ns; approaches `target` a little with each frame.
    private var shift: Int64 = 0
    private var target: Int64?
    /// The newest media path with a known delay.
    private var delayPath = PathID.lowest
    /// Latency that the delay has required so far, with a reserve, ns. It only rises, so that sinks adapt rarely.
    private var promised: ClockTime = 0
    private var hasShown = false

    package init(minimumLatency: ClockTime? = nil) { minimum = minimumLatency }

    package var isCapture: Bool { minimum != nil }

    /// True if frames of this media path can be timestamped: its delay is known, or arrival times are used.
    package func hasDelay(path: PathID) -> Bool { !isCapture || delayPath >= path }

    /// Takes the measured delay of a media path, from a frame's running time at the input to its arrival, ns.
    /// - Parameter base: latency after arrival, ns.
    /// - Returns: true if a higher latency must be reported than before.
    package mutating func setDelay(_ delay: Int64, path: PathID, base: ClockTime) -> Bool {
        guard isCapture, path >= delayPath else { return false }
        // Another media path has a delay of its own, so there is nothing to smooth.
        if path > delayPath || !hasShown { shift = delay }
        delayPath = path
        target = delay
        let needed = Self.sum(base, delay)
        guard needed > floor(base) else { return false }
        promised = (needed &+ needed / 10) / 50_000_000 &* 50_000_000 &+ 50_000_000
        return true
    }

    /// The answer to a LATENCY query, ns.
    package func latency(base: ClockTime) -> ClockTime {
        guard isCapture else { return base }
        return max(floor(base), Self.sum(base, target ?? 0))
    }

    private func floor(_ base: ClockTime) -> ClockTime { max(promised, minimum ?? 0, base) }

    /// Returns the output time of a frame that arrived at `time`; for the current running time, that is the output
    /// position.
    package func moved(_ time: ClockTime, base: ClockTime) -> ClockTime { Self.move(time, by: shift(base: base)) }

    /// Offset subtracted from arrival times, ns. Before the first measurement: the minimum latency minus `base`.
    package func shift(base: ClockTime) -> Int64 {
        guard isCapture else { return 0 }
        let least = latency(base: base)
        return target == nil ? Int64(clamping: least &- min(base, least)) : shift
    }

    package var isMeasured: Bool { target != nil }

    package static func move(_ time: ClockTime, by shift: Int64) -> ClockTime {
        shift >= 0 ? time &- min(time, shift.magnitude) : time &+ shift.magnitude
    }

    /// Called when a frame has left. Spreads a small change of the delay over several frames; a large one is real and
    /// applies at once.
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

/// The shift for audio. It follows a change of the video delay only after that has lasted for a second: dropped samples
/// are audible, while one or two late frames are not visible. In the first seconds of measuring, while a service warms
/// up, it follows at once.
package struct SteadyShift: Sendable {
    private static let confirmationTime: ClockTime = 1_000_000_000
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
        guard now &- known.since >= Self.confirmationTime else { return current }
        (self.current, candidate) = (shift, nil)
        return shift
    }
}
