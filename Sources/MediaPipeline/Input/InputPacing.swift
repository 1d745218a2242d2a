package import GStreamerKit
import Synchronization

/// Offset that is added to the running time of inputs that are not live, so that their first buffer plays now. Video
/// and audio share it, so that those of one file stay in sync.
package final class InputPacing: Sendable {
    private let offset = Mutex(SharedOffset<ObjectIdentifier>())

    package init() {}

    /// - Parameter time: running time of the buffer at hand.
    func offset(for time: ClockTime, now: ClockTime, track: ObjectIdentifier) -> Int64 {
        offset.withLock { $0.offset(for: time, now: now, track: track) }
    }

    /// Lets the next buffer set the offset again.
    func reset() { offset.withLock { $0 = SharedOffset() } }
}

/// A value; times in ns.
package struct SharedOffset<Track: Hashable> {
    private var offset: Int64?
    private var begun: Set<Track> = []

    /// Streams of one presentation may begin this far apart. Beyond that their times have nothing to do with each other.
    private static var longestLead: Int64 { 60_000_000_000 }

    package init() {}

    package mutating func offset(for time: ClockTime, now: ClockTime, track: Track) -> Int64 {
        let present = Int64(clamping: now) &- Int64(clamping: time)
        let isFirst = begun.insert(track).inserted
        guard var known = offset else {
            offset = present
            return present
        }
        // The track whose first buffer is earlier sets the offset: with the other one's, its beginning would be in the past.
        if isFirst { known = max(known, present) }
        let (wait, overflows) = known.subtractingReportingOverflow(present)
        if overflows || wait > Self.longestLead { known = present }
        offset = known
        return known
    }
}
