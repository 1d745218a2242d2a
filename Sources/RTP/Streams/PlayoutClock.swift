/// Maps the RTP timestamps of one stream to the running time of the pipeline. Arrival jitters; the least delay of the last
/// seconds does not, so it stands for the path, and slow changes of it for the difference between the two clocks. A value;
/// times in nanoseconds.
package struct PlayoutClock: Sendable {
    private let clockRate: Int64
    private let largestLead: Int64
    private var timestamps = SerialNumber<UInt32>()
    /// Running time of RTP timestamp zero.
    private var offset: Int64 = 0
    /// The running time of the first packet.
    private var start: Int64 = 0
    /// The least offsets of this window and of the one before.
    private var least: (begun: Int64, now: Int64, before: Int64)?
    private var last: (timestamp: Int64, time: Int64)?
    private var lastArrival: Int64 = .min
    /// Added to all times; it keeps the stream in sync with another one.
    package var delay: Int64 = 0

    /// A queue on the path that drains sooner does not become its delay, which the playout delay would be added to.
    private static let window: Int64 = 3_000_000_000
    private static let settling: Int64 = 1_000_000_000
    private static let largestStep: UInt64 = 1_000_000_000

    /// - Parameter largestLead: times that are ahead of their packets' arrivals by more follow a shorter delay of the path at
    ///   once instead of gradually: until the clock has reached the time of the last frame, an output does not know that
    ///   the next one is missing.
    package init(clockRate: Int, largestLead: Duration) {
        self.clockRate = Int64(max(clockRate, 1))
        self.largestLead = max(0, largestLead.inNanoseconds)
    }

    private func media(_ timestamp: Int64) -> Int64 {
        // Whole seconds apart, so that no product overflows.
        let (seconds, rest) = timestamp.quotientAndRemainder(dividingBy: clockRate)
        return seconds &* 1_000_000_000 &+ rest &* 1_000_000_000 / clockRate
    }

    /// The running time at which a packet with these media arrives if nothing delays it.
    /// - Parameter arrival: running time of its arrival. Not for retransmissions.
    package mutating func time(of timestamp: UInt32, arrival: Int64) -> Int64 {
        // The pipeline's running time has been set back, and the times follow it.
        if arrival < lastArrival, (lastArrival &- arrival).magnitude > Self.largestStep { (least, last) = (nil, nil) }
        lastArrival = arrival
        let count = timestamps.record(timestamp)
        if let last, last.timestamp == count { return last.time }
        let transit = arrival &- media(count)
        if least == nil || (transit &- offset).magnitude > Self.largestStep {
            // The first packet, a restart of the sender's clock, or a long pause of the network.
            (offset, start) = (transit, arrival)
            least = (arrival, transit, transit)
        } else {
            follow(transit, arrival)
        }
        var time = media(count) &+ offset &+ delay
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
        let share: Int64 = arrival &- start < Self.settling ? 4 : 32
        offset = offset &- wanted > largestLead ? wanted : offset &+ (wanted &- offset) / share
    }

    /// The running time of a packet that is sent once more, whose arrival says nothing of the path; nil before the first
    /// packet. It is no further ahead of its arrival than other packets are: the remote peer may write any timestamp.
    package func time(ofRepetition timestamp: UInt32, arrival: Int64) -> Int64? {
        undelayedTime(of: timestamp).map { max(0, min($0, arrival &+ Int64(Self.largestStep)) &+ delay) }
    }

    /// The running time of media at this timestamp without `delay`; nil before the first packet.
    package func undelayedTime(of timestamp: UInt32) -> Int64? {
        least == nil ? nil : media(timestamps.extended(timestamp)) &+ offset
    }
}

/// Delays the earlier one of two streams of a remote peer, by the sender reports, so that media of the same time are shown
/// together. It follows in small steps: a jump is seen and heard, and a single report may be wrong. A value; times in
/// nanoseconds.
package struct StreamSynchronizer: Sendable {
    private struct Stream {
        var name: [UInt8]
        /// Running time minus the sender's NTP time.
        var offset: Int64
        /// The same as two reports in a row have it.
        var confirmed: Int64?
        var reportedAt: Duration
    }
    private var streams: [MediaKind: Stream] = [:]
    /// By how much audio is delayed; negative: video.
    private var delay: Int64 = 0
    private var steppedAt: Duration?

    /// A larger difference is no property of the network: the reports are wrong.
    private static let largest: UInt64 = 3_000_000_000
    /// Smaller changes cannot be noticed.
    private static let smallest: UInt64 = 4_000_000
    /// Two reports whose offsets differ by more do not agree.
    private static let tolerance: UInt64 = 50_000_000
    /// The largest step within `interval`, as in libwebrtc.
    private static let step: Int64 = 80_000_000
    private static let interval = Duration.seconds(1)
    /// The delay ends after this time without a report.
    private static let timeout = Duration.seconds(10)

    package init() {}

    /// - Parameters:
    ///   - name: the CNAME. Only streams of one name share a clock.
    ///   - ntp: the sender report's NTP time.
    ///   - running: the running time of its RTP timestamp without any delay.
    package mutating func reported(_ kind: MediaKind, name: [UInt8], ntp: Int64, running: Int64, now: Duration) {
        let before = streams[kind].flatMap { $0.name == name ? $0 : nil }
        let offset = running &- ntp
        let agrees = before.map { Self.difference(offset, $0.offset, atMost: Self.tolerance) != nil } ?? false
        streams[kind] = Stream(
            name: name, offset: offset, confirmed: agrees ? offset : before?.confirmed, reportedAt: now)
    }

    /// Call often.
    /// - Returns: the new delays, if they have changed.
    package mutating func follow(now: Duration) -> [MediaKind: Int64]? {
        guard !streams.isEmpty, steppedAt.map({ now - $0 >= Self.interval }) ?? true else { return nil }
        let missing = wanted(now) &- delay
        guard missing.magnitude > Self.smallest else { return nil }
        steppedAt = now
        delay &+= max(-Self.step, min(missing, Self.step))
        return delays
    }

    private func wanted(_ now: Duration) -> Int64 {
        guard let video = streams[.video], let audio = streams[.audio], video.name == audio.name,
            now - min(video.reportedAt, audio.reportedAt) < Self.timeout,
            let videoOffset = video.confirmed, let audioOffset = audio.confirmed
        else { return 0 }
        return Self.difference(videoOffset, audioOffset, atMost: Self.largest) ?? 0
    }

    /// The remote peer chooses both times.
    private static func difference(_ one: Int64, _ other: Int64, atMost limit: UInt64) -> Int64? {
        let (difference, overflow) = one.subtractingReportingOverflow(other)
        return overflow || difference.magnitude > limit ? nil : difference
    }

    private var delays: [MediaKind: Int64] { [.video: max(0, -delay), .audio: max(0, delay)] }

    /// Call when another stream replaces that of this kind, or when it ends.
    /// - Returns: the new delays, if they have changed.
    package mutating func forget(_ kind: MediaKind) -> [MediaKind: Int64]? {
        streams[kind] = nil
        guard delay != 0 else { return nil }
        delay = 0
        return delays
    }
}
