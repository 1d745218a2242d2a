import GStreamerKit
import MediaPipeline
import Testing

@Suite struct InputTimelineTests {
    private static let ms: ClockTime = 1_000_000

    /// Passes 40 frames, one every 40 ms, with the running times that `upstream` gives in ms.
    private func times(isLive: Bool = true, _ upstream: (Int) -> Int?) -> [Int] {
        var line = InputTimeline()
        return (0..<40).map { index in
            let now = 40 * index
            let time = line.next(
                upstream(index).map { ClockTime($0) * Self.ms }, arrival: .milliseconds(now), isLive: isLive,
                step: 40 * Self.ms, present: ClockTime(now) * Self.ms)
            return Int(time / Self.ms)
        }
    }

    private func expectSteady(_ times: [Int], within tolerance: Int = 1) {
        for (index, pair) in zip(times, times.dropFirst()).enumerated() {
            #expect(abs(pair.1 - pair.0 - 40) <= tolerance, "frame \(index + 1): \(times)")
        }
    }

    @Test func regularTimesAreKept() { #expect(times { 40 * $0 } == (0..<40).map { 40 * $0 }) }

    @Test func aTimeOfDayIsKept() { #expect(times { 1_700_000_000 + 40 * $0 }.last == 1_700_000_000 + 39 * 40) }

    @Test func stepBackKeepsThePace() {
        expectSteady(times { $0 < 20 ? 40 * $0 : 40 * ($0 - 20) })
        expectSteady(times(isLive: false) { $0 < 20 ? 40 * $0 : 40 * ($0 - 20) })
    }

    @Test func anOutlierIsOneFrame() { expectSteady(times { $0 == 20 ? 7_200_000 : 40 * $0 }) }

    @Test func equalTimesFollowTheArrival() {
        expectSteady(times { _ in 500 })
        #expect(times { (10..<15).contains($0) ? 400 : 40 * $0 } == (0..<40).map { 40 * $0 }, "and end as they began")
    }

    @Test func missingTimesFollowTheArrivalOrTheFrameRate() {
        expectSteady(times { _ in nil })
        expectSteady(times(isLive: false) { _ in nil })
    }

    @Test func jitterMovesOneFrame() {
        let times = times { $0 == 20 ? 40 * $0 - 61 : 40 * $0 }
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
        #expect(times[20] == 761 && times[21] == 840)
    }

    @Test func aLiveInputReturnsToTheClock() {
        #expect(times { $0 < 5 ? 3_600_000 + 40 * $0 : 40 * $0 }.last == 3_600_000 + 39 * 40)
        #expect(times { $0 == 0 ? 0 : 1_500 + 40 * $0 }.last == 1_500 + 39 * 40)
    }

    @Test func aGapOfAPausedProducerIsKept() {
        var line = InputTimeline()
        for (now, isLive) in [(0, true), (40, true), (5_000, true)] {
            let time = line.next(
                ClockTime(now) * Self.ms, arrival: .milliseconds(now), isLive: isLive, step: 40 * Self.ms, present: nil)
            #expect(time == ClockTime(now) * Self.ms)
        }
    }

    /// The times are those of a slide show read from a file.
    @Test func aSlowInputThatIsNotLiveKeepsItsPace() {
        var line = InputTimeline()
        for slide in 0..<5 {
            let time = line.next(
                ClockTime(slide * 8_000) * Self.ms, arrival: .milliseconds(slide), isLive: false, step: 33 * Self.ms,
                present: nil)
            #expect(time == ClockTime(slide * 8_000) * Self.ms)
        }
    }

    @Test(arguments: [ClockTime.max, ClockTime(Int64.max), 0]) func extremesDoNotTrap(_ extreme: ClockTime) {
        var line = InputTimeline()
        var last: ClockTime?
        for upstream in [0, extreme, nil, extreme, 1, extreme] as [ClockTime?] {
            let time = line.next(
                upstream, arrival: .zero, isLive: true, step: ClockTime.max, present: ClockTime.max)
            if let last { #expect(time > last) }
            last = time
        }
    }
}
