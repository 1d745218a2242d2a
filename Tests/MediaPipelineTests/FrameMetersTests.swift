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

    /// The average and 150 ms, or three times a long average.
    @Test(arguments: [(33, 183), (100, 300)]) func aLongIntervalIsAFreeze(average: Int, bound: Int) {
        var meter = FreezeMeter()
        let last = feed(&meter, from: 0, every: average, count: 40) + bound - 1
        meter.frame(at: .milliseconds(last))
        #expect(meter.count == 0)
        let next = feed(&meter, from: last + average, every: average, count: 40) + bound + 1
        meter.frame(at: .milliseconds(next))
        #expect(meter.count == 1)
        #expect(meter.total == .milliseconds(bound + 1))
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
