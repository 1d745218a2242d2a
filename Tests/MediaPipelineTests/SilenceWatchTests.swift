import MediaPipeline
import Testing

@Suite struct SilenceWatchTests {
    /// The seconds, counted from zero, at which silence was reported. `frames` has the second of each frame.
    private func reports(
        _ frames: [Int], upTo end: Int, interval: Duration? = nil, isDue: (Int) -> Bool = { _ in true }
    ) -> [Int] {
        var watch = SilenceWatch()
        return (0...end).filter { second in
            watch.add(count: UInt64(frames.filter { $0 <= second }.count), interval: interval, isDue: isDue(second))
        }
    }

    @Test func aStreamThatNeverBeginsIsReportedOnce() {
        #expect(reports([], upTo: 60) == [5])
    }

    @Test func aCameraThatStopsIsReportedEachTime() {
        #expect(reports([1, 2, 3, 20, 21, 22, 23], upTo: 60).count == 2)
    }

    @Test(arguments: [2, 5, 9]) func aSlideshowIsSilentAsLongAsItKeepsItsPace(interval: Int) {
        let frames = (0..<10).map { $0 * interval }
        let nominal = Duration.seconds(interval)
        #expect(reports(frames, upTo: 9 * interval + 2, interval: nominal).isEmpty)
        #expect(reports(frames, upTo: 100 * interval, interval: nominal) == [9 * interval + max(5, 3 * interval)])
    }

    /// Without caps that tell the rate, the second frame tells it.
    @Test func theIntervalIsLearnt() {
        #expect(reports([0, 4, 8, 12, 23], upTo: 25).isEmpty)
        #expect(reports([0, 4, 8, 12], upTo: 60) == [24])
    }

    @Test func aStallDoesNotCountAsPaceForLong() {
        let frames = [0, 1, 2] + [32, 33, 34, 35, 36]
        #expect(reports(frames, upTo: 60) == [7, 41])
    }

    @Test func nothingIsReportedWhileNoFramesAreDue() {
        #expect(reports([0, 1], upTo: 60, isDue: { $0 < 4 || $0 > 50 }) == [55])
        #expect(reports([], upTo: 60, isDue: { _ in false }).isEmpty)
    }
}
