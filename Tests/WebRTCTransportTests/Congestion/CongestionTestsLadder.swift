import Glibc
import RTP
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
        (2_500_000, Level()), (700_000, Level()), (610_000, Level()), (500_000, Level(scale: .threeQuarters)),
        (300_000, Level(frameRate: 15, scale: .half)), (60_000, Level(frameRate: 15, scale: .threeEighths)),
        (20_000, Level(frameRate: 10, scale: .quarter)), (0, Level(frameRate: 10, scale: .quarter)),
        (-1, Level(frameRate: 10, scale: .quarter)),
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
            for preference in DegradationPreference.allCases {
                let ladder = DegradationLadder(width: width, height: height, frameRate: rate, preference: preference)
                #expect(ladder.steps.first?.level == Level())
                #expect(
                    zip(ladder.steps, ladder.steps.dropFirst()).allSatisfy { $0.minimumBitrate >= $1.minimumBitrate })
                #expect(
                    ladder.steps.allSatisfy { ($0.level.frameRate ?? 0) < Int(rate.isFinite ? rate : 30) || rate.isNaN }
                )
                switch preference {
                case .balanced: #expect(ladder.steps.allSatisfy { $0.level.frameRate ?? 10 >= 10 })
                case .maintainFramerate: #expect(ladder.steps.allSatisfy { $0.level.frameRate == nil })
                case .maintainResolution: #expect(ladder.steps.allSatisfy { $0.level.scale == .full })
                }
            }
        }
    }

    /// An encoder that follows the ladder, of a content that looks acceptable in its full size at `needed` bit/s.
    private struct Encoder {
        var needed: Double
        /// The least bitrate, at the coarsest quantizer, as a share of `needed`.
        var least = 0.2
        /// False: its frames do not say how they are quantized.
        var isJudged = true
        var now = Duration.zero
        var sum = EncodedSum()

        /// Encodes frames for `time` and returns the levels that the ladder changed to.
        @discardableResult mutating func run(
            _ ladder: inout DegradationLadder, target: Int, isLimitedByNetwork: Bool = true, for time: Duration
        ) -> [Level] {
            var seen: [Level] = []
            let end = now + time
            let limit = BitrateTarget(
                target: target, estimate: target, reason: isLimitedByNetwork ? .delay : .ceiling,
                isLimitedByNetwork: isLimitedByNetwork)
            while now < end {
                if let level = ladder.frame(limit, made: sum, now: now) { seen.append(level) }
                let rate = ladder.level.frameRate ?? 30
                let steps = ladder.steps
                let share = Double(steps[ladder.index].minimumBitrate) / Double(steps[0].minimumBitrate)
                let bitrate = max(Double(target), needed * share * least)
                sum.frames += 1
                sum.bytes += UInt64(bitrate / 8 / Double(rate))
                if isJudged {
                    sum.judged += 1
                    sum.excess += log2(needed * share / bitrate)
                }
                now += .seconds(1) / rate
            }
            return seen
        }
    }

    /// A detailed content gets a smaller size at a bitrate at which a simple one keeps its own.
    @Test(
        arguments: [
            (400_000, Level()), (1_000_000, Level(scale: .threeQuarters)),
            (9_000_000, Level(frameRate: 10, scale: .quarter)),
        ] as [(Double, Level)])
    func whatTheContentNeeds(needed: Double, expected: Level) {
        var ladder = DegradationLadder(width: 1280, height: 704, frameRate: 30)
        var encoder = Encoder(needed: needed)
        encoder.run(&ladder, target: 620_000, for: .seconds(20))
        #expect(ladder.level == expected)
        encoder.run(&ladder, target: 2_500_000, isLimitedByNetwork: false, for: .seconds(3))
        #expect(ladder.level == Level())
    }

    /// At its coarsest quantizer an encoder exceeds its target: only smaller frames help.
    @Test
    func whatTheEncoderCannotMakeSmaller() {
        var ladder = DegradationLadder(width: 640, height: 360, frameRate: 30)
        var encoder = Encoder(needed: 2_000_000, least: 0.5)
        let steps = encoder.run(&ladder, target: 250_000, for: .seconds(4))
        #expect(steps.last?.scale == .threeEighths || steps.last?.scale == .quarter, "\(steps)")
    }

    /// What says nothing about its quantizer is judged as typical content.
    @Test
    func anEncoderThatDoesNotSay() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var encoder = Encoder(needed: 9_000_000, isJudged: false)
        #expect(encoder.run(&ladder, target: 700_000, for: .seconds(20)).isEmpty)
    }

    /// If the configured maximum is the limit, the encoder meets it with a coarser quantizer.
    @Test(arguments: [200_000, 1_500_000])
    func whatTheNetworkCarriesCostsNoFrame(target: Int) {
        var ladder = DegradationLadder(width: 1280, height: 704, frameRate: 30)
        var encoder = Encoder(needed: 8_000_000)
        let steps = encoder.run(&ladder, target: target, isLimitedByNetwork: false, for: .seconds(60))
        #expect(steps.isEmpty, "\(steps)")
    }

    /// A step up that the network does not carry is tried less and less often.
    @Test
    func aStepUpThatFails() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        var ups = 0
        _ = settle(&ladder, 500_000, from: &now, seconds: 5)
        for _ in 0..<20 {
            ups += settle(&ladder, 800_000, from: &now, seconds: 3).count
            _ = settle(&ladder, 500_000, from: &now, seconds: 1)
        }
        #expect((1...3).contains(ups), "\(ups)")
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
    func downAtOnceAndUpAtOnce() {
        var ladder = DegradationLadder(width: 1280, height: 720, frameRate: 30)
        var now = Duration.zero
        #expect(settle(&ladder, 60_000, from: &now, seconds: 1) == [Level(frameRate: 15, scale: .threeEighths)])
        #expect(settle(&ladder, 2_500_000, from: &now, seconds: 2) == [Level()])
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
        #expect(DegradationLadder.Scale.quarter.applied(to: 704) == 176)
        #expect(DegradationLadder.Scale.threeEighths.applied(to: 704) == 264)
        #expect(DegradationLadder.Scale.half.applied(to: 3) == 16)
        #expect(DegradationLadder.Scale.threeQuarters.applied(to: .max) >= 16)
    }
}
