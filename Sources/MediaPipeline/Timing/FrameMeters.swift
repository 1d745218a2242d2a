// Frame rate and freezes of a video stream, as values: `now` is an argument.

/// Frames in the last second (webrtc-stats `framesPerSecond`).
package struct FrameRateMeter: Sendable {
    private static let capacity = 512
    private var times: [Duration] = []

    package init() {}

    package mutating func frame(at now: Duration) {
        drop(before: now)
        if times.count >= Self.capacity { times.removeFirst() }
        times.append(now)
    }

    package mutating func rate(at now: Duration) -> Int {
        drop(before: now)
        return times.count
    }

    private mutating func drop(before now: Duration) {
        guard let index = times.firstIndex(where: { now - $0 < .seconds(1) }) else { return times.removeAll() }
        if index > 0 { times.removeFirst(index) }
    }
}

/// Freezes as webrtc-stats defines them for `freezeCount`: an interval between two frames of at least three times the
/// average, or the average and 150 ms, whichever is longer. The average is that of the last 30 frames.
package struct FreezeMeter: Sendable {
    private static let window = 30

    package private(set) var count: UInt64 = 0
    package private(set) var total: Duration = .zero
    private var last: Duration?
    private var intervals: [Duration] = []

    package init() {}

    package mutating func frame(at now: Duration) {
        defer { last = now }
        guard let last else { return }
        let interval = now - last
        if let average = intervals.isEmpty ? nil : intervals.reduce(.zero, +) / intervals.count,
            interval >= max(average * 3, average + .milliseconds(150))
        {
            count &+= 1
            total += interval
        }
        if intervals.count >= Self.window { intervals.removeFirst() }
        intervals.append(interval)
    }

    /// The stream ends on purpose: the time until its next frame is no freeze.
    package mutating func pause() {
        last = nil
        intervals = []
    }
}
