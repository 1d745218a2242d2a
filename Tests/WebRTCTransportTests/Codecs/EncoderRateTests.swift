import GStreamerKit
import Testing
import WebRTCTransport

/// The bitrate that is set at an encoder, on virtual time.
struct EncoderRateTests {
    /// Runs frames of a rate through an encoder that makes `share` of its setting, divided by the frame rate of its caps or by
    /// the times of the frames. Returns what it made in the last third, as a share of the target.
    private static func run(
        _ rate: inout EncoderRate, target: Int, declared: Double, fps: Double, share: Double, countsFrames: Bool,
        most: Double = .infinity, seconds: Double = 12
    ) -> Double {
        rate.set(target: target)
        rate.declare(declared)
        var (time, made, counted) = (0.0, 0.0, 0.0)
        while time < seconds {
            rate.entered(ClockTime(time * 1e9))
            let bits = min(share * Double(rate.setting) / (countsFrames ? declared : fps), most)
            rate.left(Int(bits / 8))
            if time > seconds * 2 / 3 { (made, counted) = (made + bits, counted + 1 / fps) }
            time += 1 / fps
        }
        return made / counted / Double(target)
    }

    @Test(arguments: [5.0, 8, 10, 12, 15, 22, 24, 30, 60] as [Double], [0.82, 1, 1.08] as [Double])
    func theTargetIsUsedAtAnyFrameRate(fps: Double, share: Double) {
        for countsFrames in [true, false] {
            var rate = EncoderRate(target: 0, countsFrames: countsFrames)
            let used = Self.run(
                &rate, target: 900_000, declared: 22, fps: fps, share: share, countsFrames: countsFrames)
            #expect((0.95...1.03).contains(used), "\(countsFrames) \(used)")
        }
    }

    /// A still content takes a fiftieth: the next scene must not exceed the target for long.
    @Test
    func aPictureThatNeedsLittle() {
        var rate = EncoderRate(target: 0, countsFrames: true)
        _ = Self.run(&rate, target: 900_000, declared: 30, fps: 30, share: 1, countsFrames: true, most: 600)
        #expect((850_000...1_000_000).contains(rate.setting), "\(rate.setting)")
    }

    /// An encoder at its coarsest quantizer makes twice the target, whatever is set.
    @Test
    func anEncoderThatCannotMakeLess() {
        var rate = EncoderRate(target: 0, countsFrames: false)
        rate.set(target: 300_000)
        for frame in 0..<600 {
            rate.entered(ClockTime(frame) * 33_000_000)
            rate.left(2500)
        }
        #expect(rate.setting == 120_000)
    }

    /// The first keyframe gets the share of a frame by the caps, whatever rate follows.
    @Test
    func theFirstFrameIsBounded() {
        var rate = EncoderRate(target: 600_000, countsFrames: true)
        rate.declare(30)
        rate.entered(0)
        #expect(rate.setting == 600_000)
    }

    /// Below 15 frames a second no mean frame is above 25 kB, but a megabit is always allowed.
    @Test(arguments: [(10, 2_000_000), (5, 1_000_000), (2, 1_000_000), (30, 3_500_000)] as [(Double, Int)])
    func slowStreamsHaveNoLargeFrames(fps: Double, bound: Int) {
        var rate = EncoderRate(target: 0, countsFrames: false)
        _ = Self.run(&rate, target: 3_500_000, declared: 30, fps: fps, share: 1, countsFrames: false)
        #expect(abs(rate.setting - bound) < bound / 20, "\(rate.setting)")
    }

    /// Times that stand still, go back or pause say nothing.
    @Test(
        arguments: [[0, 0, 0], [5_000_000_000, 1_000_000_000, 0], [0, 60_000_000_000, 120_000_000_000]] as [[ClockTime]]
    )
    func oddTimes(times: [ClockTime]) {
        var rate = EncoderRate(target: 600_000, countsFrames: true)
        rate.declare(30)
        for time in times {
            rate.entered(time)
            rate.left(.max / 16)
        }
        #expect(rate.setting == 600_000)
        rate.declare(.nan)
        rate.declare(0)
        #expect(rate.setting == 600_000)
    }
}
