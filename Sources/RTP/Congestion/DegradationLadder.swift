import func Glibc.exp2

/// Sums over the frames that an encoder has made, keyframes apart.
package struct EncodedSum: Sendable, Equatable {
    package var frames: UInt64 = 0
    package var bytes: UInt64 = 0
    /// Frames that said how coarsely they are quantized, and the sum of their excesses: see `QuantizerReader`.
    package var judged: UInt64 = 0
    package var excess = 0.0
    package init() {}
}

/// What gives way when the network does not carry the video, as `degradationPreference` of mst-content-hint.
package enum DegradationPreference: Int, Sendable, CaseIterable {
    /// Size and frame rate together, as keeps the best quality.
    case balanced
    /// The size alone.
    case maintainFramerate
    /// The frame rate alone.
    case maintainResolution
}

/// Decides what gives way when the network does not carry the video: first the encoder's bitrate alone, then size and frame
/// rate together. What a step needs depends on the content, which the encoder's quantizer shows. If the configured maximum is
/// the limit, only quality gives way. A value without a clock: feed it the target with each frame.
package struct DegradationLadder: Sendable {
    package struct Level: Sendable, Equatable {
        /// Maximum frames a second; nil: no limit.
        package var frameRate: Int?
        /// Scale of width and height.
        package var scale: Scale
        package init(frameRate: Int? = nil, scale: Scale = .full) {
            self.frameRate = frameRate
            self.scale = scale
        }
    }
    package enum Scale: Int, Sendable, CaseIterable {
        case full, threeQuarters, half, threeEighths, quarter
        package var numerator: Int { [1, 3, 1, 3, 1][rawValue] }
        package var denominator: Int { [1, 4, 2, 8, 4][rawValue] }
        /// The scaled length: even, as 4:2:0 requires, and at least 16.
        package func applied(to length: Int) -> Int {
            max(16, (length.multipliedReportingOverflow(by: numerator).partialValue / denominator) & ~1)
        }
    }
    /// A level, and the lowest bitrate at which typical content looks acceptable, bit/s.
    package struct Step: Sendable, Equatable {
        package var level: Level
        package var minimumBitrate: Int
    }

    package let steps: [Step]
    package private(set) var index = 0
    /// Since when another step fits better, and whether it is a lower one.
    private var wish: (isDown: Bool, since: Duration)?
    /// Factor by which the current content needs more than `Step.minimumBitrate`.
    private var complexity = 1.0
    /// The present measurement: what was encoded before it.
    private var window: (start: Duration, sum: EncodedSum)?
    private var lastUp: Duration?
    private var delayUp = Self.firstDelayUp

    package var level: Level { steps.indices.contains(index) ? steps[index].level : Level() }

    /// Builds the steps for frames of this size and this many frames a second (0: unknown, 30 is assumed).
    package init(width: Int, height: Int, frameRate: Double, preference: DegradationPreference = .balanced) {
        let full = frameRate.isFinite && frameRate > 0 ? min(frameRate, 240) : 30
        let area = Double(min(max(width, 16), 16_384)) * Double(min(max(height, 16), 16_384))
        func rate(_ wanted: Int) -> Int? { Double(wanted) < 0.9 * full ? wanted : nil }
        let levels: [Level] =
            switch preference {
            case .balanced:
                [
                    Level(), Level(scale: .threeQuarters), Level(frameRate: rate(15), scale: .half),
                    Level(frameRate: rate(15), scale: .threeEighths), Level(frameRate: rate(10), scale: .quarter),
                ]
            case .maintainFramerate: Scale.allCases.map { Level(scale: $0) }
            case .maintainResolution: [Level()] + [15, 10, 5].compactMap(rate).map { Level(frameRate: $0) }
            }
        steps = levels.map { level in
            let ratio = Double(level.scale.numerator) / Double(level.scale.denominator)
            let rate = level.frameRate.map(Double.init) ?? full
            return Step(level: level, minimumBitrate: Self.minimumBitrate(area * ratio * ratio, rate))
        }
    }

    /// Bitrate that looks acceptable, bit/s. Area × rate^¾ (fewer frames differ more from each other), set so that
    /// 1280×720 at 30 needs 600 kbit/s, at 15 some 360, at 10 some 260, at 5 some 160.
    fileprivate static func minimumBitrate(_ area: Double, _ rate: Double) -> Int {
        Int(0.0508 * area * (rate.squareRoot() * rate.squareRoot().squareRoot()))
    }

    /// Time for which a lower step fits better before it is taken. A change of the size costs a keyframe.
    private static let delayDown = Duration.milliseconds(600)
    /// The same for a higher step, and the most after steps up that did not last.
    private static let firstDelayUp = Duration.milliseconds(1500)
    private static let longestDelayUp = Duration.seconds(12)
    /// A step down within this time shows that the step up before it was wrong.
    private static let trial = Duration.seconds(6)
    /// A step up requires this multiple of what the better step needs.
    private static let margin = 1.2
    /// A measurement takes at least this long and this many frames.
    private static let measurement: (time: Duration, frames: UInt64) = (.milliseconds(400), 5)
    /// Weight of the latest measurement.
    private static let weight = 0.5
    private static let complexities = 0.2...30

    /// Call before each frame. `made` is what the encoder has made so far, `now` is monotonic from any origin. Returns the level
    /// if it changes. The level follows the sustained target, because it lasts longer than a queue takes to drain.
    package mutating func frame(_ target: BitrateTarget, made: EncodedSum, now: Duration) -> Level? {
        measure(made, now)
        return update(target: target.isLimitedByNetwork ? target.sustained : .max, now: now)
    }

    private mutating func measure(_ made: EncodedSum, _ now: Duration) {
        guard let begun = window else { return window = (now, made) }
        let frames = made.judged &- begun.sum.judged
        guard now - begun.start >= Self.measurement.time, frames >= Self.measurement.frames,
            steps.indices.contains(index)
        else { return }
        window = (now, made)
        let bitrate = Double(made.bytes &- begun.sum.bytes) * 8 / ((now - begun.start) / .seconds(1))
        let excess = min(max((made.excess - begun.sum.excess) / Double(frames), -8), 8)
        // The quantizer changes by that much if the bitrate doubles.
        let needed = bitrate * exp2(excess) / Double(max(1, steps[index].minimumBitrate))
        let bounded = min(max(needed, Self.complexities.lowerBound), Self.complexities.upperBound)
        complexity += Self.weight * (bounded - complexity)
    }

    private func needed(_ index: Int) -> Double { Double(steps[index].minimumBitrate) * complexity }

    /// Returns the level if it changes. `target` is in bit/s, `now` monotonic from any origin.
    package mutating func update(target: Int, now: Duration) -> Level? {
        let best =
            steps.indices.first { Double(target) >= needed($0) * ($0 < index ? Self.margin : 1) } ?? steps.count - 1
        guard best != index, steps.indices.contains(best) else {
            wish = nil
            return nil
        }
        let isDown = best > index
        if wish?.isDown != isDown { wish = (isDown, now) }
        guard let wish, now - wish.since >= (isDown ? Self.delayDown : delayUp) else { return nil }
        if !isDown {
            lastUp = now
        } else if let lastUp {
            delayUp = now - lastUp < Self.trial ? min(delayUp * 2, Self.longestDelayUp) : Self.firstDelayUp
        }
        index = best
        // Frames of the former size say nothing about this one.
        (self.wish, window) = (nil, nil)
        return level
    }
}

extension VideoCodec {
    /// The bitrate at which video of this size and frame rate looks sharp, bit/s: for 1280×704 at 30 some 1.5 Mbit/s, with VP9
    /// three quarters of that. The service's SDKs begin with about as much.
    package func qualityFloor(_ size: (width: Int, height: Int), framerate: Int) -> Int {
        let area = Double(min(max(size.width, 16), 16_384)) * Double(min(max(size.height, 16), 16_384))
        let minimum = DegradationLadder.minimumBitrate(area, Double(min(max(framerate, 1), 240)))
        return self == .vp9 ? minimum * 15 / 8 : minimum * 5 / 2
    }
}
