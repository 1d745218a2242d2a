import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct DegradationLadderTests {
    typealias Level = DegradationLadder.Level

    /// Returns the level changes while `target` holds for `seconds`, with ten updates a second.
    private func settle(_ ladder: inout DegradationLadder, _ target: Int, from start: inout Duration, seconds: Int)
        -> [Level]
    {
        var seen: [Level] = []
        for _ in 0..<(seconds * 10) {
            if let level = ladder.update(target: target, now: start) { seen.append(level) }
            start += .milliseconds(100)
        }
        return seen
    }

    @Test(arguments: [
        (2_500_000, Level()), (700_000, Level()), (610_000, Level()), (500_000, Level(frameRate: 15)),
        (300_000, Level(frameRate: 10)),
        (200_000, Level(frameRate: 5)), (120_000, Level(frameRate: 5, scale: .threeQuarters)),
        (60_000, Level(frameRate: 5, scale: .half)),
        (0, Level(frameRate: 5, scale: .half)), (-1, Level(frameRate: 5, scale: .half)),
    ])
    func whatGivesWayAt720p30(target: Int, expected: Level) {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        _ = settle(&ladder, target, from: &now, seconds: 20)
        #expect(ladder.level == expected)
    }

    @Test
    func rungsFallAndNeedLessEach() {
        for (width, height, rate) in [
            (1280, 720, 30.0), (640, 480, 25), (1920, 1080, 60), (320, 180, 10), (1280, 720, 5), (0, -4, .nan),
            (.max, .max, .infinity),
        ] {
            let ladder = DegradationLadder(width: width, height: height, frameRate: rate)
            #expect(ladder.steps.first?.level == Level())
            #expect(zip(ladder.steps, ladder.steps.dropFirst()).allSatisfy { $0.minimumBitrate >= $1.minimumBitrate })
            // The frame rate falls first, then the size.
            let scales = ladder.steps.map(\.level.scale.rawValue)
            #expect(scales == scales.sorted())
            #expect(
                ladder.steps.allSatisfy { ($0.level.frameRate ?? 0) < Int(rate.isFinite ? rate : 30) || rate.isNaN })
        }
        #expect(
            DegradationLadder(width: 1280, height: 720, frameRate: 12).steps.map(\.level.frameRate) == [
                nil, 10, 5, 5, 5,
            ])
        #expect(
            DegradationLadder(width: 1280, height: 720, frameRate: 30, floor: 10).steps.map(\.level.frameRate) == [
                nil, 15, 10, 10, 10,
            ])
    }

    /// An encoder that follows the ladder. `make` returns the bytes of a frame from its number and level.
    private struct Encoder {
        var now = Duration.zero
        var bytes: UInt64 = 0
        var frames = 0

        /// Encodes frames for `time` and returns the levels that the ladder changed to.
        @discardableResult mutating func run(
            _ ladder: inout DegradationLadder, target: Int, isLimitedByNetwork: Bool = true, for time: Duration,
            make: (Int, Level) -> Int
        ) -> [Level] {
            var seen: [Level] = []
            let end = now + time
            while now < end {
                let target = BitrateTarget(
                    target: target, estimate: target, reason: isLimitedByNetwork ? .delay : .ceiling,
                    isLimitedByNetwork: isLimitedByNetwork)
                if let level = ladder.frame(target, encodedBytes: bytes, now: now) { seen.append(level) }
                bytes += UInt64(make(frames, ladder.level))
                frames += 1
                now += .seconds(1) / (ladder.level.frameRate ?? 30)
            }
            return seen
        }
    }

    /// The encoder produces 2.4 times its target for detailed content: the ladder soon lowers the frame rate, and
    /// restores it when the network no longer limits.
    @Test
    func whatTheEncoderCannotMakeSmaller() {
        var ladder = DegradationLadder(width: 640, height: 360, frameRate: 30)
        var encoder = Encoder()
        func size(_ target: Int, _ level: Level) -> Int {
            let area =
                Double(level.scale.numerator * level.scale.numerator)
                / Double(level.scale.denominator * level.scale.denominator)
            return max(target / 8 / (level.frameRate ?? 30), Int(890_000 / 8 / 30 * area))
        }
        encoder.run(&ladder, target: 2_500_000, for: .seconds(10)) { size(2_500_000, $1) }
        #expect(ladder.level == Level())
        encoder.run(&ladder, target: 370_000, for: .milliseconds(1100)) { size(370_000, $1) }
        #expect(ladder.level != Level())
        encoder.run(&ladder, target: 370_000, for: .seconds(20)) { size(370_000, $1) }
        #expect((ladder.level.frameRate.map { $0 * size(370_000, ladder.level) * 8 } ?? .max) < 481_000)
        #expect(ladder.level.scale == .full, "\(ladder.level)")
        encoder.run(&ladder, target: 2_500_000, for: .seconds(20)) { size(2_500_000, $1) }
        #expect(ladder.level == Level())
    }

    /// If the network carries the encoder's overshoot, even above the user's maximum, the ladder drops no frames. The encoder
    /// meets a low maximum with a coarser quantizer.
    @Test(arguments: [(1_500_000, 1.4), (1_500_000, 2.4), (1_500_000, 9), (200_000, 1)])
    func whatTheNetworkCarriesCostsNoFrame(target: Int, ratio: Double) {
        var ladder = DegradationLadder(width: 1280, height: 704, frameRate: 30)
        var encoder = Encoder()
        let steps = encoder.run(&ladder, target: target, isLimitedByNetwork: false, for: .seconds(60)) { _, _ in
            Int(ratio * Double(target) / 8 / 30)
        }
        #expect(steps.isEmpty, "\(steps)")
    }

    /// The target lags behind the encoder during ramp-up, and a burst looks like a standing queue. The ladder restores
    /// any step taken then, some seconds after the network has proven to carry the maximum.
    @Test
    func whatIsMeasuredDuringRampUpDoesNotLast() {
        var ladder = DegradationLadder(width: 1280, height: 704, frameRate: 30)
        var encoder = Encoder()
        encoder.run(&ladder, target: 1_500_000, for: .seconds(3)) { _, level in 2_400_000 / 8 / (level.frameRate ?? 30)
        }
        encoder.run(&ladder, target: 2_500_000, isLimitedByNetwork: false, for: .seconds(10)) { _, level in
            2_600_000 / 8 / (level.frameRate ?? 30)
        }
        #expect(ladder.level == Level())
    }

    /// The encoder overshoots by half at any frame rate, so fewer frames do not help.
    @Test
    func aStepThatDidNotLowerTheBitrateIsTakenBack() {
        var ladder = DegradationLadder(width: 1280, height: 704, frameRate: 30)
        var encoder = Encoder()
        let steps = encoder.run(&ladder, target: 800_000, for: .seconds(30)) { _, level in
            1_200_000 / 8 / (level.frameRate ?? 30)
        }
        #expect(steps.contains(Level(frameRate: 15)), "\(steps)")
        #expect(steps.count % 2 == 0 && steps.count <= 6, "\(steps)")
        for (number, level) in steps.enumerated() where number % 2 == 1 { #expect(level == Level()) }
        #expect(ladder.level == Level())
        // The attempts cost at most one frame in three.
        #expect(encoder.frames > 30 * 30 * 2 / 3)
    }

    /// Scene cuts: every two seconds, five frames of six times the usual size.
    @Test
    func aCutChangesNothing() {
        var ladder = DegradationLadder(width: 640, height: 360, frameRate: 30)
        var encoder = Encoder()
        encoder.run(&ladder, target: 370_000, for: .seconds(20)) { number, _ in
            370_000 / 8 / 30 * (number % 60 < 5 ? 6 : 1)
        }
        #expect(ladder.level == Level())
    }

    @Test
    func aShortDipChangesNothing() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        #expect(settle(&ladder, 2_000_000, from: &now, seconds: 5).isEmpty)
        for _ in 0..<4 {
            #expect(ladder.update(target: 100_000, now: now) == nil)
            now += .milliseconds(100)
        }
        #expect(settle(&ladder, 2_000_000, from: &now, seconds: 20).isEmpty)
    }

    @Test
    func downAtOnceUpOneByOne() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        #expect(settle(&ladder, 200_000, from: &now, seconds: 1) == [Level(frameRate: 5)])
        #expect(settle(&ladder, 2_500_000, from: &now, seconds: 2).isEmpty)
        #expect(
            settle(&ladder, 2_500_000, from: &now, seconds: 12) == [
                Level(frameRate: 10), Level(frameRate: 15), Level(),
            ])
    }

    @Test
    func sizeIsTheLastToGoAndTheSlowestToComeBack() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        #expect(settle(&ladder, 50_000, from: &now, seconds: 1) == [Level(frameRate: 5)])
        #expect(
            settle(&ladder, 50_000, from: &now, seconds: 10) == [
                Level(frameRate: 5, scale: .threeQuarters), Level(frameRate: 5, scale: .half),
            ])
        #expect(settle(&ladder, 2_500_000, from: &now, seconds: 5).isEmpty)
        #expect(settle(&ladder, 2_500_000, from: &now, seconds: 2) == [Level(frameRate: 5, scale: .threeQuarters)])
    }

    @Test
    func aTargetAroundALimitDoesNotFlap() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        let need = ladder.steps[0].minimumBitrate
        var changes = 0
        for step in 0..<1200 {
            let target = need + (step / 10 % 2 == 0 ? -1 : 1) * need / 10
            if ladder.update(target: target, now: now) != nil { changes += 1 }
            now += .milliseconds(100)
        }
        #expect(changes == 1)
    }

    @Test
    func scaledLengthsAreEvenAndSane() {
        #expect(DegradationLadder.Scale.threeQuarters.applied(to: 1280) == 960)
        #expect(DegradationLadder.Scale.threeQuarters.applied(to: 718) == 538)
        #expect(DegradationLadder.Scale.half.applied(to: 720) == 360)
        #expect(DegradationLadder.Scale.full.applied(to: 720) == 720)
        #expect(DegradationLadder.Scale.half.applied(to: 3) == 16)
        #expect(DegradationLadder.Scale.threeQuarters.applied(to: .max) >= 16)
    }
}
