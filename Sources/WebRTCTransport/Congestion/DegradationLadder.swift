/// Decides what gives way when the network does not carry the video: first the encoder's bitrate alone, then frame
/// rate, then size; recovery goes the other way, more slowly. If the configured maximum is the limit, only quality
/// gives way. A value without a clock: feed it the target with each frame.
package struct DegradationLadder: Sendable {
    package struct Level: Sendable, Equatable {
        /// Maximum frames a second; nil: no limit.
        package var frameRate: Int?
        /// Scale of width and height: 1/1, 3/4 or 1/2.
        package var scale: Scale
        package init(frameRate: Int? = nil, scale: Scale = .full) {
            self.frameRate = frameRate
            self.scale = scale
        }
    }
    package enum Scale: Int, Sendable, CaseIterable {
        case full, threeQuarters, half
        package var numerator: Int { self == .threeQuarters ? 3 : 1 }
        package var denominator: Int { [1, 4, 2][rawValue] }
        /// The scaled length: even, as 4:2:0 requires, and at least 16.
        package func applied(to length: Int) -> Int {
            max(16, (length.multipliedReportingOverflow(by: numerator).partialValue / denominator) & ~1)
        }
    }
    /// A level, and the lowest bitrate at which it looks acceptable, bit/s.
    package struct Step: Sendable, Equatable {
        package var level: Level
        package var minimumBitrate: Int
    }

    package let steps: [Step]
    package private(set) var index = 0
    private var belowSince: Duration?
    private var aboveSince: Duration?
    /// Factor by which the current frames need more than `Step.minimumBitrate`, which is for typical content.
    private var complexity = 1.0
    private var isOvershooting = false
    /// A step down that a measurement caused: the step before it and the bitrate measured there, bit/s. It is kept
    /// until a measurement shows a lower bitrate.
    private var trial: (index: Int, bitrate: Int, hasFailedOnce: Bool)?
    /// The latest overshoot that two measurements in a row showed, bit/s.
    private var measuredBitrate: Int?
    /// Measurements do not count until then, because a step did not help.
    private var distrustEnds: Duration?
    /// The present measurement: the bytes encoded before it, the frames since, and the sum of the target at each frame.
    private var window: (start: Duration, bytes: UInt64, frames: Int, targets: Double)?

    package var level: Level { steps.indices.contains(index) ? steps[index].level : Level() }

    /// Builds the steps for frames of this size and this many frames a second (0: unknown, 30 is assumed).
    package init(width: Int, height: Int, frameRate: Double, floor: Int = 5) {
        let full = frameRate.isFinite && frameRate > 0 ? min(frameRate, 240) : 30
        let area = Double(min(max(width, 16), 16_384)) * Double(min(max(height, 16), 16_384))
        let slow = [15, 10, 5].filter { $0 >= floor && Double($0) < full * 0.9 }
        var steps = [Step(level: Level(), minimumBitrate: Self.minimumBitrate(area, full))]
        for rate in slow {
            steps.append(Step(level: Level(frameRate: rate), minimumBitrate: Self.minimumBitrate(area, Double(rate))))
        }
        let slowest = slow.last
        for scale in [Scale.threeQuarters, .half] {
            let ratio = Double(scale.numerator) / Double(scale.denominator)
            steps.append(
                Step(
                    level: Level(frameRate: slowest, scale: scale),
                    minimumBitrate: Self.minimumBitrate(area * ratio * ratio, slowest.map(Double.init) ?? full)))
        }
        self.steps = steps
    }

    /// Bitrate that looks acceptable, bit/s. Area × rate^¾ (fewer frames differ more from each other), set so that
    /// 1280×720 at 30 needs 600 kbit/s, at 15 some 360, at 10 some 260, at 5 some 160.
    private static func minimumBitrate(_ area: Double, _ rate: Double) -> Int {
        Int(0.0508 * area * (rate.squareRoot() * rate.squareRoot().squareRoot()))
    }

    /// Time below a step's minimum bitrate before frames are dropped; longer for the size, because its change costs a
    /// keyframe.
    private static let delayDown: (frames: Duration, size: Duration) = (.milliseconds(500), .seconds(2))
    private static let delayUp: (frames: Duration, size: Duration) = (.seconds(3), .seconds(6))
    /// A step up requires this multiple of the better step's minimum bitrate.
    private static let margin = 1.2

    /// A measurement takes at least this long and this many frames: with fewer, one more or less would change the
    /// result.
    private static let measurement: (time: Duration, frames: Int) = (.milliseconds(300), 5)

    /// Measurements do not count for this long after a step that did not lower the bitrate.
    private static let distrust: Duration = .seconds(10)

    /// Call before each frame. `encodedBytes` is the bytes of all encoded frames so far except keyframes, `now` is
    /// monotonic from any origin. Returns the level if it changes; a new measurement starts then. The level follows the
    /// sustained target, because it lasts longer than a queue takes to drain.
    package mutating func frame(_ target: BitrateTarget, encodedBytes: UInt64, now: Duration) -> Level? {
        guard target.isLimitedByNetwork else {
            // The network carries what is sent, so no measurement is a reason to drop frames.
            (complexity, isOvershooting, window, trial) = (1, false, nil, nil)
            (belowSince, distrustEnds, measuredBitrate) = (nil, nil, nil)
            return index > 0 ? stepUp(now: now) : nil
        }
        if let (start, bytes, frames, targets) = window,
            now - start >= Self.measurement.time, frames >= Self.measurement.frames
        {
            let seconds = (now - start) / .seconds(1)
            let bitrate = Int(min(Double(encodedBytes &- bytes) * 8 / seconds, 1e9))
            window = nil
            if isFutile(bitrate) { return revertTrial(now: now) }
            if measured(bitrate, target: Int(min(targets / Double(frames), 1e9)), for: seconds, now: now) {
                belowSince = belowSince ?? start
                measuredBitrate = bitrate
            }
        }
        let (start, bytes, frames, targets) = window ?? (now, encodedBytes, 0, 0)
        window = (start, bytes, frames + 1, targets + Double(target.target))
        let before = index
        guard let level = update(target: target.sustained, now: now) else { return nil }
        (window, trial) = (nil, nil)
        // The target alone would not have caused this step.
        if index > before, target.sustained >= steps[before].minimumBitrate, let measuredBitrate {
            trial = (before, measuredBitrate, false)
        }
        (isOvershooting, measuredBitrate) = (false, nil)
        return level
    }

    /// True if two measurements show that fewer or smaller frames did not lower the bitrate: the encoder spends on each
    /// frame what the others save, so it is not at its coarsest quantizer.
    private mutating func isFutile(_ bitrate: Int) -> Bool {
        guard let trial else { return false }
        guard Double(bitrate) > 0.9 * Double(trial.bitrate) else {
            self.trial = nil
            return false
        }
        self.trial?.hasFailedOnce = true
        return trial.hasFailedOnce
    }

    private mutating func revertTrial(now: Duration) -> Level {
        index = trial?.index ?? index
        (trial, complexity, isOvershooting, belowSince, aboveSince) = (nil, 1, false, nil, nil)
        distrustEnds = now + Self.distrust
        return level
    }

    /// Evaluates the bitrate that the encoder produced at the present level, bit/s. At its coarsest quantizer it may
    /// exceed its target, and then only fewer or smaller frames help. One sample may be due to a scene change: returns
    /// true for two overshoots in a row.
    private mutating func measured(_ bitrate: Int, target: Int, for seconds: Double, now: Duration) -> Bool {
        guard steps.indices.contains(index), steps[index].minimumBitrate > 0, target > 0, trial == nil,
            distrustEnds.map({ now >= $0 }) ?? true
        else { return false }
        let overshoots = Double(bitrate) > 1.3 * Double(target)
        defer { isOvershooting = overshoots }
        if !overshoots {
            // The content may have become simpler. Nothing else would show that, and a wrong guess causes another
            // queue, so decay slowly.
            complexity = max(1, complexity * (1 - 0.01 * min(seconds, 5)))
        } else if isOvershooting {
            complexity = min(50, max(complexity, Double(bitrate) / Double(steps[index].minimumBitrate)))
        }
        return overshoots && isOvershooting
    }

    private func minimumBitrate(_ index: Int) -> Double { Double(steps[index].minimumBitrate) * complexity }

    /// Returns the level if it changes. `target` is in bit/s, `now` monotonic from any origin.
    package mutating func update(target: Int, now: Duration) -> Level? {
        guard steps.indices.contains(index) else { return nil }
        if Double(target) < minimumBitrate(index), index + 1 < steps.count {
            aboveSince = nil
            return stepDown(target: target, now: now)
        }
        belowSince = nil
        if index > 0, Double(target) >= Self.margin * minimumBitrate(index - 1) { return stepUp(now: now) }
        aboveSince = nil
        return nil
    }

    private mutating func stepDown(target: Int, now: Duration) -> Level? {
        let since = belowSince ?? now
        belowSince = since
        let waited = now - since
        guard waited >= Self.delayDown.frames else { return nil }
        var next = index
        while next + 1 < steps.count, Double(target) < minimumBitrate(next) {
            // The frame rate goes at once to where it belongs, the size one step after the other.
            if steps[next + 1].level.scale != steps[next].level.scale {
                guard waited >= Self.delayDown.size, next == index else { break }
                next += 1
                break
            }
            next += 1
        }
        guard next != index else { return nil }
        index = next
        belowSince = nil
        return level
    }

    private mutating func stepUp(now: Duration) -> Level? {
        let since = aboveSince ?? now
        aboveSince = since
        let isSize = steps[index].level.scale != steps[index - 1].level.scale
        guard now - since >= (isSize ? Self.delayUp.size : Self.delayUp.frames) else { return nil }
        index -= 1
        aboveSince = nil
        return level
    }
}
