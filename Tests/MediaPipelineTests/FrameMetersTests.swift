import MediaPipeline
import Testing

@Suite struct FrameMetersTests {
    /// Feeds frames every `interval` ms for `count` frames, from `start` ms on; returns the time of the last one.
    private func feed(_ meter: inout FreezeMeter, from start: Int, every interval: Int, count: Int) -> Int {
        for index in 0..<count { meter.frame(at: .milliseconds(start + index * interval)) }
        return start + (count - 1) * interval
    }

    @Test func steadyFramesDoNotFreeze() {
        var meter = FreezeMeter()
        _ = feed(&meter, from: 0, every: 33, count: 300)
        #expect(meter.count == 0 && meter.total == .zero)
    }

    @Test func anIntervalOfTheAverageAnd150MillisecondsIsAFreeze() {
        var meter = FreezeMeter()
        let last = feed(&meter, from: 0, every: 33, count: 40)
        // 3 x 33 = 99 ms is less than 33 + 150 ms, so the latter counts.
        meter.frame(at: .milliseconds(last + 182))
        #expect(meter.count == 0)
        let next = feed(&meter, from: last + 215, every: 33, count: 40)
        meter.frame(at: .milliseconds(next + 184))
        #expect(meter.count == 1)
        #expect(meter.total == .milliseconds(184))
    }

    @Test func aLongAverageCountsThreefold() {
        var meter = FreezeMeter()
        let last = feed(&meter, from: 0, every: 100, count: 40)
        meter.frame(at: .milliseconds(last + 299))
        #expect(meter.count == 0)
        let next = feed(&meter, from: last + 400, every: 100, count: 40)
        meter.frame(at: .milliseconds(next + 301))
        #expect(meter.count == 1)
    }

    @Test func aPauseIsNoFreeze() {
        var meter = FreezeMeter()
        let last = feed(&meter, from: 0, every: 33, count: 40)
        meter.pause()
        meter.frame(at: .milliseconds(last + 10_000))
        #expect(meter.count == 0)
    }

    @Test func theRateIsThatOfTheLastSecond() {
        var meter = FrameRateMeter()
        for index in 0..<90 { meter.frame(at: .milliseconds(index * 40)) }
        #expect(meter.rate(at: .milliseconds(89 * 40)) == 25)
        #expect(meter.rate(at: .milliseconds(89 * 40 + 500)) == 13)
        #expect(meter.rate(at: .milliseconds(89 * 40 + 2000)) == 0)
    }

    @Test func percentilesOfTheLastHundred() {
        var meter = DelayFilter(window: 100)
        #expect(meter.percentile(0.5) == nil)
        for sample in 1...150 { meter.add(Int64(sample)) }
        #expect(meter.percentile(0) == 51)
        #expect(meter.percentile(0.5) == 101)
        #expect(meter.percentile(0.9) == 140)
        #expect(meter.percentile(1) == 150)
    }
}
