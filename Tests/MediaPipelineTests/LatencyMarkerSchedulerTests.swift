import GStreamerKit
import MediaPipeline
import Testing

@Suite struct LatencyMarkerSchedulerTests {
    private static let ms: UInt64 = 1_000_000

    /// Feeds frames at 25 fps for `seconds`; each returns after `delay` ms. Returns the times of the marked frames, ms.
    private func run(
        _ scheduler: inout LatencyMarkerScheduler, from start: Int = 0, seconds: Int, delay: (Int) -> Int,
        answers: Bool = true
    ) -> [Int] {
        var marked: [Int] = []
        var under: [(number: UInt16, due: Int)] = []
        for time in stride(from: start, to: start + seconds * 1000, by: 40) {
            while let next = under.first, next.due <= time {
                under.removeFirst()
                if answers, let sent = scheduler.answer(next.number) {
                    _ = scheduler.measured(Int64(next.due) * 1_000_000 - Int64(sent))
                }
            }
            if let number = scheduler.number(forFrameAt: UInt64(time) * Self.ms) {
                marked.append(time)
                under.append((number, time + delay(time)))
            }
        }
        return marked
    }

    @Test func fewFramesAreMarked() {
        var scheduler = LatencyMarkerScheduler(firstNumber: 65_534)
        let marked = run(&scheduler, seconds: 20) { _ in 300 }
        // Every 120 ms until a few frames after the first answer, then once in two seconds.
        #expect(marked.filter { $0 < 1000 }.count <= 9)
        #expect(marked.filter { $0 >= 2000 }.count <= 10)
        #expect(marked.first == 0)
        #expect(scheduler.delay == 300_000_000)
    }

    @Test func changedDelayIsMeasuredAtOnce() {
        var scheduler = LatencyMarkerScheduler(firstNumber: 0)
        _ = run(&scheduler, seconds: 10) { _ in 300 }
        let marked = run(&scheduler, from: 10_000, seconds: 6) { _ in 500 }
        #expect(scheduler.delay == 500_000_000)
        #expect(marked.count >= 7 && marked.count <= 13, "\(marked)")
    }

    @Test func jitterDoesNotMoveTheMedian() {
        var scheduler = LatencyMarkerScheduler(firstNumber: 0)
        var random = SystemRandomNumberGenerator()
        _ = run(&scheduler, seconds: 30) { _ in 300 + Int.random(in: -20...20, using: &random) }
        #expect(scheduler.delay.map { abs($0 - 300_000_000) <= 20_000_000 } == true)
        _ = run(&scheduler, from: 30_000, seconds: 3) { time in time < 30_100 ? 900 : 300 }
        #expect(scheduler.delay.map { abs($0 - 300_000_000) <= 20_000_000 } == true)
    }

    @Test func withoutAnswersItGivesUp() {
        var scheduler = LatencyMarkerScheduler(firstNumber: 0)
        var gaveUp = 0
        _ = run(&scheduler, seconds: 2, delay: { _ in 300 }, answers: false)
        for _ in 0..<100 where scheduler.frameWithoutNumber() { gaveUp += 1 }
        #expect(gaveUp == 1)
        let marked = run(&scheduler, from: 2000, seconds: 60, delay: { _ in 300 }, answers: false)
        #expect(marked.count == LatencyMarkerScheduler.burst)
    }

    @Test func lateAnswerIsAccepted() {
        var scheduler = LatencyMarkerScheduler(firstNumber: 0)
        _ = run(&scheduler, seconds: 2, delay: { _ in 300 }, answers: false)
        for _ in 0..<LatencyMarkerScheduler.maximumUnmarked { _ = scheduler.frameWithoutNumber() }
        _ = run(&scheduler, from: 2000, seconds: 10) { _ in 400 }
        #expect(scheduler.delay == 400_000_000)
    }

    @Test func eachNumberCountsOnce() throws {
        var scheduler = LatencyMarkerScheduler(firstNumber: 9)
        let given = scheduler.number(forFrameAt: 5)
        let number = try #require(given)
        #expect(scheduler.contains(number) && !scheduler.contains(number &+ 1))
        let answers = [number, number, number &+ 1].map { scheduler.answer($0) }
        #expect(answers == [5, nil, nil])
        #expect(scheduler.contains(number))
    }
}
