package import GStreamerKit

/// The bitrate to set at an encoder so that what it makes has the target's bitrate. An encoder that gives each frame its share
/// by the frame rate of its caps spends too little while fewer frames come, as from a camera in dim light, and a short buffer
/// keeps it below its own setting. A value: frames and their sizes drive it.
package struct EncoderRate: Sendable {
    /// Multiples of the target; beyond them the setting is not what keeps the encoder from its target.
    private static let corrections = 0.4...2.0
    /// A content that takes a smaller share of the target does not need it: its correction would be an overshoot later.
    private static let neededShare = 0.4
    /// The time, ns, and the frames of a measurement.
    private static let measurement: (time: ClockTime, frames: Int) = (1_000_000_000, 8)
    /// A longer time between two frames is a pause, ns.
    private static let pause: ClockTime = 2_000_000_000
    /// Weight of the latest interval between frames.
    private static let weight = 1.0 / 6

    /// True for an encoder that divides its bitrate by the frame rate of its caps, whatever the frames' times are.
    private let countsFrames: Bool
    private var target: Int
    /// The frame rate of the encoder's caps.
    private var declared: Double?
    /// Mean of the latest intervals between frames, s.
    private var interval: Double?
    private var last: ClockTime?
    private var correction = 1.0
    private struct Window: Sendable {
        var start: ClockTime
        var frames = 0
        var bits = 0.0
        /// The bits that the target allows in the time of these frames.
        var wanted = 0.0
    }
    private var window: Window?
    /// The first measurement has the first keyframe, which the buffer repays later.
    private var isFirst = true

    package init(target: Int, countsFrames: Bool) {
        (self.target, self.countsFrames) = (target, countsFrames)
    }

    /// Frames of a slow stream are no larger than that, bits: what stands in the queue of the path in front of the next frame
    /// makes it late, and the service holds large frames back.
    private static let largestMean = 200_000.0
    private static let slow = 15.0
    private static let leastBound = 1_000_000.0

    private var wanted: Double {
        guard let interval, interval > 1 / Self.slow else { return Double(target) }
        return min(Double(target), max(Self.leastBound, Self.largestMean / interval))
    }

    /// The bitrate to set, bit/s.
    package var setting: Int {
        var rate = wanted * correction
        // Until frames show another rate, it is that of the caps, which bounds the first keyframe.
        if countsFrames, let declared, let interval { rate *= min(max(declared * interval, 0.25), 16) }
        return Int(min(rate, 1e9))
    }

    package mutating func set(target: Int) { self.target = target }

    /// Takes the frame rate of the encoder's caps; 0: they have none.
    package mutating func declare(_ frameRate: Double) {
        declared = frameRate.isFinite && frameRate > 0 ? frameRate : nil
        interval = declared.map { 1 / $0 }
        (last, window, isFirst) = (nil, nil, true)
    }

    /// A frame of this time enters the encoder.
    package mutating func entered(_ time: ClockTime) {
        defer { last = time }
        guard let last, time > last, time - last <= Self.pause else {
            window = nil
            return
        }
        let passed = Double(time - last) / 1e9
        interval = interval.map { $0 + Self.weight * (passed - $0) } ?? passed
        let allowed = wanted
        window?.wanted += allowed * passed
        guard let measured = window else { return window = Window(start: time) }
        let isOver = measured.bits > 1.25 * allowed
        guard time - measured.start >= Self.measurement.time || isOver, measured.frames >= Self.measurement.frames
        else { return }
        window = Window(start: time)
        guard !isFirst else { return isFirst = false }
        correct(measured.bits / max(1, measured.wanted))
    }

    /// The encoder has made a frame of this size.
    package mutating func left(_ bytes: Int) {
        window?.bits += Double(bytes) * 8
        window?.frames += 1
    }

    /// - Parameter share: of the target that was used.
    private mutating func correct(_ share: Double) {
        let next =
            share < Self.neededShare
            ? correction + 0.3 * (1 - correction)
            : correction * min(max(1 / share, 0.6), 1.15)
        correction = min(max(next, Self.corrections.lowerBound), Self.corrections.upperBound)
    }
}
