/// How long after the earliest possible time media are played: so long that most of them are ready by then. It follows the
/// media of the last seconds, up at once, because the next ones are as late, and down slowly. A value; times in nanoseconds.
package struct PlayoutDelay: Sendable {
    private struct Sample: Sendable {
        var time: RunningTime
        var lateness: RunningTime
    }
    private var samples: [Sample] = []
    /// Of the samples that count, in order: kept, so that a frame allocates nothing.
    private var recent: [RunningTime] = []
    /// Where the next sample goes.
    private var place = 0
    private let kind: MediaKind
    /// The share of the media that the delay covers. A later frame is shown late; later audio is replaced by silence.
    private var share: Double { kind == .video ? 0.9 : 0.97 }
    /// The latest media that decide. Few frames, so that the delay of the video falls soon after a queue has drained.
    private var maximumSamples: Int { kind == .video ? 45 : 256 }
    /// The delay with which the share of the last seconds would have been in time.
    package private(set) var target: RunningTime = 0
    package private(set) var current: RunningTime = 0
    private var last: (media: RunningTime, ready: RunningTime)?
    /// Frames that were late enough to stop the display for a visible time: one for each stop.
    private var stops: [Sample] = []

    /// ns; a longer stop is a freeze. A longer delay prevents more than `maximumStops` within `stopsWindow`: rare
    /// losses on a path with a long round trip.
    private static let visibleStop: RunningTime = 150_000_000
    private static let maximumStops = 2
    private static let stopsWindow: RunningTime = 8_000_000_000
    /// Frames within that time belong to one stop.
    private static let longestStop: RunningTime = 500_000_000
    private static let window: RunningTime = 5_000_000_000
    /// What is later still does not count for more: no retransmission takes longer.
    private static let longest: RunningTime = 2_000_000_000
    /// The delay falls by a tenth of the elapsed time, as libwebrtc's does, because faster motion would be noticed; a long
    /// excess falls to 1/e within this time.
    private static let fallDivisor: RunningTime = 10
    private static let fallTime: RunningTime = 500_000_000

    package init(_ kind: MediaKind) { self.kind = kind }

    /// Takes the next media.
    /// - Parameters:
    ///   - lateness: from the earliest possible time of their arrival until they were ready to be played.
    ///   - now: running time.
    package mutating func ready(after lateness: RunningTime, now: RunningTime) {
        let media = now &- min(now, lateness)
        let (spacing, elapsed) =
            last.map { (media &- min(media, $0.media), now &- min(now, $0.ready)) } ?? (0, RunningTime.max)
        last = (media, now)
        // They waited for those before them. If they counted, one pause would delay all media of the next seconds.
        if elapsed < spacing / 2 { return }
        let sample = Sample(time: now, lateness: min(lateness, Self.longest))
        if samples.count < maximumSamples { samples.append(sample) } else { samples[place] = sample }
        place = (place + 1) % maximumSamples
        // The running time may be set back.
        recent.removeAll(keepingCapacity: true)
        for sample in samples where sample.time <= now && now &- sample.time <= Self.window {
            recent.append(sample.lateness)
        }
        recent.sort()
        let usual = recent[min(Int(Double(recent.count) * share), recent.count - 1)]
        if kind == .video { note(sample, usual) }
        target = max(usual, latenessOfStops)
        fall(elapsed)
    }

    private mutating func note(_ sample: Sample, _ usual: RunningTime) {
        stops.removeAll { $0.time > sample.time || sample.time &- $0.time > Self.stopsWindow }
        guard sample.lateness > usual &+ Self.visibleStop else { return }
        if let last = stops.last, sample.time &- last.time < Self.longestStop {
            stops[stops.count - 1].lateness = max(last.lateness, sample.lateness)
        } else {
            stops.append(sample)
        }
    }

    /// The delay with which there would have been as many stops as are tolerated.
    private var latenessOfStops: RunningTime {
        let sorted = stops.map(\.lateness).sorted(by: >)
        return sorted.count > Self.maximumStops ? sorted[Self.maximumStops] : 0
    }

    /// True if no media have come for some seconds.
    package func isOver(at now: RunningTime) -> Bool {
        last.map { now > $0.ready && now &- $0.ready > Self.window } ?? true
    }

    private mutating func fall(_ elapsed: RunningTime) {
        guard current > target else { return current = target }
        let (excess, time) = (current - target, min(elapsed, Self.fallTime))
        current -= min(excess, max(time / Self.fallDivisor, excess / 1000 * time / (Self.fallTime / 1000)))
    }
}
