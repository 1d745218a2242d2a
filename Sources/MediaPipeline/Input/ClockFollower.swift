// Finds inputs that follow the clock although they are not marked live, such as the camera of an application behind an
// `appsrc` with its default settings. Such an input must not wait: its delay would grow by the frames that queue during
// the wait.
package import GStreamerKit
import WebRTCTransport

/// Judges an input by the arrival of its frames. A file's next frame comes as soon as the one before it has been taken;
/// a source that follows the clock needs the time between two frames, whatever happens here. A value; times in ns.
package struct ClockFollower: Sendable {
    private var began: ClockTime?
    private var leads: (lowest: Int64, highest: Int64) = (0, 0)
    private var returned: Duration?
    /// An input that is found to follow the clock cannot be further ahead of it.
    private var ceiling: Int64?
    /// Nominal time of the latest frames that came without idle time.
    private var burst: ClockTime = 0

    /// Frames arrive this regularly for this long before the input counts as live. A slow decoder that happens to be as
    /// fast as the clock would have to stay within 5 %.
    private static let window: ClockTime = 2_000_000_000
    private static let jitter: Int64 = 100_000_000
    private static let reserve: Int64 = 1_000_000_000

    package init() {}

    /// True if upstream needed a good part of a frame's time for the frame that has come.
    /// - Parameters:
    ///   - arrival: time of arrival on a monotonic clock.
    ///   - step: time between two frames.
    package func wasIdle(at arrival: Duration, step: ClockTime) -> Bool {
        returned.map { (arrival - $0).clockTime >= step / 4 } ?? false
    }

    package var hasReturned: Bool { returned != nil }
    /// The streaming thread goes back upstream.
    package mutating func returns(at time: Duration) { returned = time }

    /// Takes a frame of an input that was found to follow the clock, without stamps by which it could be ahead.
    /// - Returns: true if upstream has not been idle for so long that it does not wait for the clock.
    package mutating func rushes(at arrival: Duration, step: ClockTime) -> Bool {
        defer { returned = arrival }
        burst = wasIdle(at: arrival, step: step) ? 0 : burst &+ step
        return burst > Self.window
    }

    /// A frame had to wait for the session or the clock, or its time is unknown: upstream cannot be judged by it.
    package mutating func restart() { began = nil }

    /// Takes a frame that passed at once.
    /// - Parameter lead: its running time by its own time stamp minus the present.
    /// - Returns: true if the input follows the clock.
    package mutating func follows(lead: Int64, present: ClockTime) -> Bool {
        guard let began, present >= began else {
            (began, leads) = (present, (lead, lead))
            return false
        }
        leads = (min(leads.lowest, lead), max(leads.highest, lead))
        let (spread, overflows) = leads.highest.subtractingReportingOverflow(leads.lowest)
        guard !overflows, spread <= Self.jitter else {
            (self.began, leads) = (present, (lead, lead))
            return false
        }
        return present &- began >= Self.window
    }

    /// Takes a frame of an input that was found to follow the clock. Returns true if it runs ahead, as a file does that
    /// is taken for live.
    package mutating func overtakes(lead: Int64) -> Bool {
        let limit = ceiling ?? max(lead, 0) &+ Self.reserve
        ceiling = limit
        return lead > limit
    }
}

/// Tells by the first frames from another program if that program follows the clock: while a frame waits here, nothing
/// shows whether more arrive. A value.
package struct PaceProbe: Sendable {
    package enum Verdict { case undecided, followsClock, asFastAsTaken }
    private var idle = 0
    private var busy = 0

    package init() {}

    package mutating func add(wasIdle: Bool) -> Verdict {
        if wasIdle { idle += 1 } else { busy += 1 }
        return busy > 2 ? .asFastAsTaken : idle > 4 ? .followsClock : .undecided
    }
}

/// Tells by the queue of an `appsrc` that its application follows the clock, while a frame waits here: the queue grows
/// as the time does. The application of a file stops at the signal `enough-data`, or pushes faster.
struct SourceBacklog {
    private let source: Element
    private let initial: ClockTime
    private let began: Duration

    private static let shortest = Duration.milliseconds(250)

    /// - Parameter pad: the element's sink pad.
    init?(behind pad: Pad) {
        guard let source = pad.upstreamSource, let level = Self.level(of: source) else { return nil }
        (self.source, initial, began) = (source, level, MonotonicTime.now)
    }

    private static func level(of source: Element) -> ClockTime? {
        source.int("current-level-time").map { ClockTime(max(0, $0)) }
    }

    var growsWithTime: Bool {
        let elapsed = MonotonicTime.now - began
        guard elapsed >= Self.shortest, let level = Self.level(of: source) else { return false }
        let (growth, time) = (Int64(clamping: level) &- Int64(clamping: initial), Int64(clamping: elapsed.clockTime))
        // Whole frames are queued, so that the growth may be one short.
        return (growth &- time).magnitude <= UInt64(time) / 4 &+ 50_000_000
    }
}
