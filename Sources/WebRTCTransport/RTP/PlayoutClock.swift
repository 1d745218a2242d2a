import GStreamerKit

/// Maps the RTP timestamps of one stream to the running time of the pipeline. Arrival jitters; the least delay of the last
/// seconds does not, so it stands for the path, and slow changes of it for the difference between the two clocks. A value;
/// times in nanoseconds.
package struct PlayoutClock: Sendable {
    private let clockRate: Int64
    private let latency: Int64
    private let largestLead: Int64
    private var timestamps = SerialNumber<UInt32>()
    /// Running time of RTP timestamp zero.
    private var offset: Int64 = 0
    /// The running time of the first packet.
    private var start: Int64 = 0
    /// The least offsets of this second and of the one before.
    private var least: (begun: Int64, now: Int64, before: Int64)?
    private var last: (timestamp: Int64, time: Int64)?
    private var lastArrival: Int64 = .min
    /// Added to all times; it keeps the stream in sync with another one.
    package var delay: Int64 = 0

    private static let window: Int64 = 1_000_000_000
    private static let largestStep: UInt64 = 1_000_000_000

    /// - Parameters:
    ///   - latency: how long a receiver waits for a packet.
    ///   - largestLead: times that are ahead of their packets' arrivals by more follow a shorter delay of the path at once
    ///     instead of gradually; nil: by more than the latency. Until the clock has reached the time of the last frame, an
    ///     output does not know that the next one is missing.
    package init(clockRate: Int, latency: Duration, largestLead: Duration? = nil) {
        self.clockRate = Int64(max(clockRate, 1))
        self.latency = Int64(clamping: latency.clockTime)
        self.largestLead = min(self.latency, largestLead.map { Int64(clamping: $0.clockTime) } ?? self.latency)
    }

    private func media(_ timestamp: Int64) -> Int64 {
        // Whole seconds apart, so that no product overflows.
        let (seconds, rest) = timestamp.quotientAndRemainder(dividingBy: clockRate)
        return seconds &* 1_000_000_000 &+ rest &* 1_000_000_000 / clockRate
    }

    /// The running time at which a packet's media are due, before the receiver's latency.
    /// - Parameter arrival: running time of its arrival.
    package mutating func time(of timestamp: UInt32, arrival: Int64) -> Int64 {
        // The pipeline's running time has been set back, and the times follow it.
        if arrival < lastArrival, lastArrival &- arrival > Self.window { (least, last) = (nil, nil) }
        lastArrival = arrival
        let count = timestamps.take(timestamp)
        if let last, last.timestamp == count { return last.time }
        let transit = arrival &- media(count)
        if least == nil || (transit &- offset).magnitude > Self.largestStep {
            // The first packet, a restart of the sender's clock, or a long pause of the network.
            (offset, start) = (transit, arrival)
            least = (arrival, transit, transit)
        } else {
            follow(transit, arrival)
        }
        // A receiver shows a frame `latency` after its time: later ones are shown at once.
        var time = max(media(count) &+ offset, arrival &- latency) &+ delay
        // A frame never comes before its predecessor.
        if let last, count > last.timestamp { time = max(time, last.time &+ 1) }
        if last.map({ count > $0.timestamp }) ?? true { last = (count, max(0, time)) }
        return max(0, time)
    }

    private mutating func follow(_ transit: Int64, _ arrival: Int64) {
        guard var least else { return }
        if arrival &- least.begun >= Self.window {
            least = (arrival, transit, least.now)
        } else {
            least.now = min(least.now, transit)
        }
        self.least = least
        let wanted = min(least.now, least.before)
        // The first frame starts encoders and decoders and is late; the times settle soon after it.
        let share: Int64 = arrival &- start < Self.window ? 4 : 32
        offset = offset &- wanted > largestLead ? wanted : offset &+ (wanted &- offset) / share
    }

    /// The running time of media at this timestamp without `delay`; nil before the first packet.
    package func undelayedTime(of timestamp: UInt32) -> Int64? {
        least == nil ? nil : media(timestamps.extended(timestamp)) &+ offset
    }
}

/// Delays the earlier one of two streams of a remote peer, by the sender reports, so that media of the same time are shown
/// together. A value; times in nanoseconds.
package struct StreamSynchronizer: Sendable {
    /// Running time minus the sender's NTP time, for each stream.
    private var offsets: [MediaKind: Int64] = [:]
    /// A larger difference is no property of the network: the reports are wrong.
    private static let largest: UInt64 = 3_000_000_000
    /// Smaller changes cannot be noticed.
    private static let smallest: Int64 = 4_000_000
    private var delays: [MediaKind: Int64] = [:]

    package init() {}

    /// - Parameters:
    ///   - ntp: the sender report's NTP time.
    ///   - running: the running time of its RTP timestamp without any delay.
    /// - Returns: the new delays, if they have changed.
    package mutating func reported(_ kind: MediaKind, ntp: Int64, running: Int64) -> [MediaKind: Int64]? {
        offsets[kind] = running &- ntp
        guard let video = offsets[.video], let audio = offsets[.audio] else { return nil }
        // The remote peer chooses both times.
        let (ahead, overflow) = video.subtractingReportingOverflow(audio)
        guard !overflow, ahead.magnitude <= Self.largest else { return nil }
        let wanted: [MediaKind: Int64] = [.video: max(0, -ahead), .audio: max(0, ahead)]
        let hasChanged = wanted.contains { abs($0.value &- (delays[$0.key] ?? 0)) > Self.smallest }
        guard hasChanged else { return nil }
        delays = wanted
        return wanted
    }

    /// Call when another stream replaces that of this kind.
    package mutating func forget(_ kind: MediaKind) { offsets[kind] = nil }
}
