// The running times of one input as the rest of the element sees them: encoders, RTP and the output need times that rise
// with the clock, and upstream's time stamps may go back, jump, repeat or be missing.
package import GStreamerKit

package struct InputTimeline: Sendable {
    /// The last frame: its time here, its time upstream, and its arrival.
    private var last: (time: ClockTime, upstream: ClockTime?, arrival: Duration)?
    /// Added to upstream's times; changes at a discontinuity only.
    private var offset: Int64 = 0

    /// A step back by less than this is jitter of the time stamps. The line waits for them.
    private static var jitter: Int64 { 100_000_000 }
    /// Time between a late frame and the one before it.
    private static var smallestStep: Int64 { 1_000_000 }

    package init() {}

    /// Returns the running time of the next frame, which is later than that of the one before.
    /// - Parameters:
    ///   - upstream: running time by the frame's own time stamp; nil: it has none, or it lies outside the segment.
    ///   - arrival: time of arrival on a monotonic clock.
    ///   - isLive: a live input cannot be ahead of its clock by more than a second. Another one may be up to ten
    ///     seconds ahead, because its frames arrive as fast as they are taken.
    ///   - step: nominal time between two frames, for an input that is not live.
    ///   - present: the element's running time; a live input may return to it.
    package mutating func next(
        _ upstream: ClockTime?, arrival: Duration, isLive: Bool, step: ClockTime, present: ClockTime?
    ) -> ClockTime {
        let (upstream, present) = (usable(upstream), usable(present))
        guard let last else {
            let first = upstream ?? present ?? 0
            self.last = (first, upstream, arrival)
            return first
        }
        let elapsed = max(Int64(clamping: (arrival - last.arrival).clockTime), Self.smallestStep)
        let ahead = distance(from: last.time, to: upstream)
        let time: ClockTime
        if let ahead, ahead > 0, ahead < elapsed &+ (isLive ? 1_000_000_000 : 10_000_000_000) {
            time = last.time &+ ClockTime(ahead)
        } else if let ahead, upstream != last.upstream, ahead <= 0, ahead > -Self.jitter {
            time = last.time &+ ClockTime(Self.smallestStep)
        } else if let upstream, let present, isLive, upstream > last.time, isNear(upstream, present) {
            // The earlier time stamps were wrong, and audio follows the clock.
            (time, offset) = (upstream, 0)
        } else {
            let nominal = min(max(Int64(clamping: step), Self.smallestStep), 10_000_000_000)
            time = last.time &+ ClockTime(isLive ? elapsed : nominal)
            // Equal time stamps tell nothing about the ones that follow.
            if let upstream, upstream != last.upstream { offset = Int64(clamping: time) &- Int64(clamping: upstream) }
        }
        self.last = (time, upstream, arrival)
        return time
    }

    /// No clock shows more than a hundred years; sums of such times do not overflow.
    private func usable(_ time: ClockTime?) -> ClockTime? { time.flatMap { $0 < 1 << 62 ? $0 : nil } }

    private func isNear(_ time: ClockTime, _ present: ClockTime) -> Bool {
        (time > present ? time &- present : present &- time) < 2_000_000_000
    }

    /// nil if the distance cannot be expressed.
    private func distance(from last: ClockTime, to upstream: ClockTime?) -> Int64? {
        guard let upstream else { return nil }
        let (moved, overflows) = Int64(clamping: upstream).addingReportingOverflow(offset)
        let (distance, isTooFar) = moved.subtractingReportingOverflow(Int64(clamping: last))
        return overflows || isTooFar ? nil : distance
    }
}
