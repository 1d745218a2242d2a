// The pipeline's running time as an output sees it in PLAYING. A flushing seek, a new start time or a new base time sets
// it back; the frames in the decoder still carry the old time then. A value; times in ns.
package import GStreamerKit

package struct RunningClock: Sendable {
    /// Threads read the time one after the other, so it may seem to go back a little.
    private static let tolerance: ClockTime = 1_000_000_000
    /// Frames wait for this long at most, for lip sync and the playout delay, with a reserve.
    private static let longestLead: ClockTime = 16_000_000_000
    private var latest: ClockTime?
    private var newestFrame: ClockTime?
    /// Frames of this time and later ones came before the time went back.
    private var staleFrom: ClockTime?

    package init() {}

    /// - Returns: true if the time has gone back.
    package mutating func follow(_ now: ClockTime) -> Bool {
        defer { latest = now }
        guard let latest, now < latest, latest &- now > Self.tolerance else { return false }
        staleFrom = newestFrame
        return true
    }

    /// Checks and stores the time of the next frame. Call it in the order of the frames, after `follow`.
    /// - Returns: false if the frame has a time from before the time went back, or one of another clock: that would bound
    ///   all later ones.
    package mutating func admit(frame time: ClockTime) -> Bool {
        if let latest, time > latest &+ Self.longestLead &+ Self.tolerance { return false }
        if let staleFrom, let latest, latest < staleFrom, time >= staleFrom { return false }
        (staleFrom, newestFrame) = (nil, time)
        return true
    }

    /// How far a frame's time is ahead: a sink that synchronizes holds it for that long. While the delay falls, frames come
    /// closer together; an eighth more covers them.
    package func lead(of time: ClockTime?) -> ClockTime {
        guard let time else { return 0 }
        let lead = min(time &- min(time, latest ?? time), Self.longestLead)
        return lead &+ lead / 8
    }
}
