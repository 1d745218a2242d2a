/// What gives way when the network does not carry what is sent: first the encoder's bitrate alone, then frames, then size,
/// and back in the other order, later. Where the configured maximum is the limit, quality alone gives way. A value without
/// a clock: feed it the target with each frame.
package struct DegradationLadder: Sendable {
    package struct Level: Sendable, Equatable {
        /// Frames a second at most; nil = as many as come.
        package var frameRate: Int?
        /// Of width and height, numerator and denominator: 1/1, 3/4, 1/2.
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
        /// The scaled length, even as 4:2:0 wants it and never below 16.
        package func applied(to length: Int) -> Int {
            max(16, (length.multipliedReportingOverflow(by: numerator).partialValue / denominator) & ~1)
        }
    }
    /// One rung, and the lowest bitrate at which it looks right.
    package struct Rung: Sendable, Equatable {
        package var level: Level
        package var needs: Int
    }

    package let rungs: [Rung]
    package private(set) var index = 0
    private var belowSince: Duration?
    private var aboveSince: Duration?
    /// How much more the pictures at hand need than `Rung.needs` says, which is of the usual kind.
    private var complexity = 1.0
    private var isOvershooting = false
    /// A step down that a measurement asked for: the rung before it, and what was made there, bit/s, until it is known that
    /// less is made now.
    private var trial: (index: Int, bitrate: Int, hasFailedOnce: Bool)?
    /// The latest overshoot of two measurements in a row, bit/s.
    private var measuredBitrate: Int?
    /// Until then no measurement counts, since a step did not help.
    private var distrustEnds: Duration?
    /// What was made, and was to be made (the sum of the target at each frame), since the present measurement began.
    private var window: (start: Duration, bytes: UInt64, frames: Int, targets: Double)?

    package var level: Level { rungs.indices.contains(index) ? rungs[index].level : Level() }

    /// For pictures of this size, `frameRate` of them a second (0 = unknown: 30 is taken).
    package init(width: Int, height: Int, frameRate: Double, floor: Int = 5) {
        let full = frameRate.isFinite && frameRate > 0 ? min(frameRate, 240) : 30
        let area = Double(min(max(width, 16), 16_384)) * Double(min(max(height, 16), 16_384))
        let slow = [15, 10, 5].filter { $0 >= floor && Double($0) < full * 0.9 }
        var rungs = [Rung(level: Level(), needs: Self.need(area, full))]
        for rate in slow { rungs.append(Rung(level: Level(frameRate: rate), needs: Self.need(area, Double(rate)))) }
        let slowest = slow.last
        for scale in [Scale.threeQuarters, .half] {
            let ratio = Double(scale.numerator) / Double(scale.denominator)
            rungs.append(
                Rung(
                    level: Level(frameRate: slowest, scale: scale),
                    needs: Self.need(area * ratio * ratio, slowest.map(Double.init) ?? full)))
        }
        self.rungs = rungs
    }

    /// bit/s. Area × rate^¾ (fewer frames differ more from each other), set so that 1280×720 at 30 needs 600 kbit/s,
    /// at 15 some 360, at 10 some 260, at 5 some 160.
    private static func need(_ area: Double, _ rate: Double) -> Int {
        Int(0.0508 * area * (rate.squareRoot() * rate.squareRoot().squareRoot()))
    }

    /// Frames may go after this long below a rung's need, the size, whose change costs a key frame, later.
    private static let patience: (frames: Duration, size: Duration) = (.milliseconds(500), .seconds(2))
    private static let recovery: (frames: Duration, size: Duration) = (.seconds(3), .seconds(6))
    /// To go up, the target must exceed what the better rung needs by this.
    private static let margin = 1.2

    /// A measurement takes this long, and so many frames: of fewer, one more or less would count.
    private static let measurement: (time: Duration, frames: Int) = (.milliseconds(300), 5)

    /// After a step that did not lower the bitrate.
    private static let distrust: Duration = .seconds(10)

    /// Before each frame: `made` are the bytes of all encoded frames so far but key frames, `now` monotonic from any origin.
    /// The level when it changes; what was made is counted anew from there. A level is for longer than a queue takes to
    /// drain.
    package mutating func frame(_ target: BitrateTarget, made: UInt64, now: Duration) -> Level? {
        guard target.isLimitedByNetwork else {
            // The network carries it, so what was measured is no reason to skip frames.
            (complexity, isOvershooting, window, trial) = (1, false, nil, nil)
            (belowSince, distrustEnds, measuredBitrate) = (nil, nil, nil)
            return index > 0 ? stepUp(now: now) : nil
        }
        if let (start, bytes, frames, targets) = window,
            now - start >= Self.measurement.time, frames >= Self.measurement.frames
        {
            let seconds = (now - start) / .seconds(1)
            let bitrate = Int(min(Double(made &- bytes) * 8 / seconds, 1e9))
            window = nil
            if isFutile(bitrate) { return takeBack(now: now) }
            if measured(bitrate, target: Int(min(targets / Double(frames), 1e9)), for: seconds, now: now) {
                belowSince = belowSince ?? start
                measuredBitrate = bitrate
            }
        }
        let (start, bytes, frames, targets) = window ?? (now, made, 0, 0)
        window = (start, bytes, frames + 1, targets + Double(target.target))
        let before = index
        guard let level = update(target: target.sustained, now: now) else { return nil }
        (window, trial) = (nil, nil)
        // The target itself would not have asked for this step.
        if index > before, target.sustained >= rungs[before].needs, let measuredBitrate {
            trial = (before, measuredBitrate, false)
        }
        (isOvershooting, measuredBitrate) = (false, nil)
        return level
    }

    /// Whether fewer or smaller frames left the bitrate as it was, two measurements long: the encoder spends on each frame
    /// what the others save, so it is not at its coarsest quantizer.
    private mutating func isFutile(_ bitrate: Int) -> Bool {
        guard let trial else { return false }
        guard Double(bitrate) > 0.9 * Double(trial.bitrate) else {
            self.trial = nil
            return false
        }
        self.trial?.hasFailedOnce = true
        return trial.hasFailedOnce
    }

    private mutating func takeBack(now: Duration) -> Level {
        index = trial?.index ?? index
        (trial, complexity, isOvershooting, belowSince, aboveSince) = (nil, 1, false, nil, nil)
        distrustEnds = now + Self.distrust
        return level
    }

    /// What the encoder made lately at the present level, bit/s: with the coarsest quantizer it may be more than it was
    /// told, and then only fewer or smaller frames help. One sample may be of a picture that changed; true for two in a row.
    private mutating func measured(_ bitrate: Int, target: Int, for seconds: Double, now: Duration) -> Bool {
        guard rungs.indices.contains(index), rungs[index].needs > 0, target > 0, trial == nil,
            distrustEnds.map({ now >= $0 }) ?? true
        else { return false }
        let overshoots = Double(bitrate) > 1.3 * Double(target)
        defer { isOvershooting = overshoots }
        if !overshoots {
            // The pictures may have become simpler; nothing else would tell, and a wrong guess is a queue again.
            complexity = max(1, complexity * (1 - 0.01 * min(seconds, 5)))
        } else if isOvershooting {
            complexity = min(50, max(complexity, Double(bitrate) / Double(rungs[index].needs)))
        }
        return overshoots && isOvershooting
    }

    private func need(_ index: Int) -> Double { Double(rungs[index].needs) * complexity }

    /// The level when it changes; `target` in bit/s, `now` monotonic from any origin.
    package mutating func update(target: Int, now: Duration) -> Level? {
        guard rungs.indices.contains(index) else { return nil }
        if Double(target) < need(index), index + 1 < rungs.count {
            aboveSince = nil
            return stepDown(target: target, now: now)
        }
        belowSince = nil
        if index > 0, Double(target) >= Self.margin * need(index - 1) { return stepUp(now: now) }
        aboveSince = nil
        return nil
    }

    private mutating func stepDown(target: Int, now: Duration) -> Level? {
        let since = belowSince ?? now
        belowSince = since
        let waited = now - since
        guard waited >= Self.patience.frames else { return nil }
        var next = index
        while next + 1 < rungs.count, Double(target) < need(next) {
            // One rung after the other, but the frame rate at once to where it belongs.
            if rungs[next + 1].level.scale != rungs[next].level.scale {
                guard waited >= Self.patience.size, next == index else { break }
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
        let isSize = rungs[index].level.scale != rungs[index - 1].level.scale
        guard now - since >= (isSize ? Self.recovery.size : Self.recovery.frames) else { return nil }
        index -= 1
        aboveSince = nil
        return level
    }
}
