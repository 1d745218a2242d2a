import GStreamerKit
import MediaPipeline
import Testing

/// Tests in virtual time, without an element or a clock.
@Suite struct TimelineTests {
    private static let ms: UInt64 = 1_000_000
    private static let base = 145 * ms
    private static let interval = 50 * ms

    private func capture(minimum: UInt64 = 500) -> OutputTimeline { OutputTimeline(minimumLatency: minimum * Self.ms) }

    @Test func arrivalIsLeftAlone() {
        var line = OutputTimeline()
        let grew = line.setDelay(300_000_000, path: 1, base: Self.base)
        #expect(!grew && line.hasDelay(path: 7))
        #expect(line.moved(777, base: Self.base) == 777 && line.moved(888, base: Self.base) == 888)
        #expect(line.latency(base: Self.base) == Self.base)
    }

    @Test func framesWaitUntilTheirDelayIsKnown() {
        var line = capture()
        #expect(!line.hasDelay(path: 1))
        // Fallback frames are moved back by the minimum latency minus the base latency until then.
        #expect(line.moved(2000 * Self.ms, base: Self.base) == 1645 * Self.ms)
        #expect(line.moved(10, base: Self.base) == 0)
        _ = line.setDelay(300 * 1_000_000, path: 1, base: Self.base)
        #expect(line.hasDelay(path: 1) && !line.hasDelay(path: 2))
        #expect(line.moved(2000 * Self.ms, base: Self.base) == 1700 * Self.ms)
        #expect(line.moved(2000 * Self.ms, base: Self.base) == 1700 * Self.ms)
    }

    @Test func theLeastLatencyDoesForAShortDelay() {
        var line = capture()
        #expect(line.latency(base: Self.base) == 500 * Self.ms)
        let grew = line.setDelay(350 * 1_000_000, path: 1, base: Self.base)
        #expect(!grew && line.latency(base: Self.base) == 500 * Self.ms)
    }

    @Test func latencyRisesInStepsAndNeverFalls() {
        var line = capture()
        var notified = 0
        var reported: [UInt64] = []
        for delay in [300, 700, 705, 710, 690, 300, 740, 900] as [Int64] {
            if line.setDelay(delay * 1_000_000, path: 1, base: Self.base) { notified += 1 }
            reported.append(line.latency(base: Self.base) / Self.ms)
            #expect(line.latency(base: Self.base) >= UInt64(delay) * Self.ms + Self.base)
        }
        #expect(notified == 2, "\(reported)")
        #expect(zip(reported, reported.dropFirst()).allSatisfy { $0 <= $1 })
    }

    @Test func aSmallChangeIsSpreadAndALargeOneIsNot() {
        var line = capture()
        _ = line.setDelay(300 * 1_000_000, path: 1, base: Self.base)
        line.frameLeft(interval: Self.interval)
        _ = line.setDelay(340 * 1_000_000, path: 1, base: Self.base)
        var times: [UInt64] = []
        for frame in 0..<20 {
            times.append(line.moved((1000 + UInt64(frame) * 50) * Self.ms, base: Self.base))
            line.frameLeft(interval: Self.interval)
        }
        let steps = zip(times, times.dropFirst()).map { ($1 - $0) / Self.ms }
        #expect(steps.allSatisfy { $0 >= 43 && $0 <= 50 }, "\(steps)")
        #expect(times.last == (1000 + 950 - 340) * Self.ms)

        _ = line.setDelay(800 * 1_000_000, path: 1, base: Self.base)
        line.frameLeft(interval: Self.interval)
        #expect(line.moved(5000 * Self.ms, base: Self.base) == 4200 * Self.ms)
    }

    @Test func anotherPathIsAnotherDelay() {
        var line = capture()
        _ = line.setDelay(300 * 1_000_000, path: 1, base: Self.base)
        line.frameLeft(interval: Self.interval)
        _ = line.setDelay(330 * 1_000_000, path: 2, base: Self.base)
        #expect(line.moved(1000 * Self.ms, base: Self.base) == 670 * Self.ms)
        // The older path's late measurement is ignored.
        _ = line.setDelay(900 * 1_000_000, path: 1, base: Self.base)
        #expect(line.moved(1000 * Self.ms, base: Self.base) == 670 * Self.ms)
    }

    @Test func soundFollowsWhatLasts() {
        var steady = SteadyShift()
        func at(_ time: UInt64, _ shift: Int64, measured: Bool = true) -> Int64 {
            steady.follow(shift * 1_000_000, isMeasured: measured, now: time * Self.ms) / 1_000_000
        }
        // An assumed shift is replaced immediately, and during warm-up so is a measured one.
        #expect([at(0, 355, measured: false), at(20, 420), at(1000, 350), at(5020, 300)] == [355, 420, 350, 300])
        // Late frames for half a second change nothing, nor does a difference of a few ms.
        var seen: [Int64] = []
        for time in stride(from: 6040, to: 6540, by: 20) as StrideTo<UInt64> { seen.append(at(time, 450)) }
        seen.append(at(6560, 303))
        for time in stride(from: 7000, to: 8000, by: 20) as StrideTo<UInt64> { seen.append(at(time, 450)) }
        #expect(seen.allSatisfy { $0 == 300 })
        #expect(at(8000, 450) == 450 && at(8020, 447) == 450)
    }

    /// Delays and times that no clock gives must not overflow: the latency never falls below the configured minimum or
    /// a reported value, and a time moves only within its range.
    @Test func senselessDelaysStayWithinTheBounds() {
        let minimum = 60_000 * Self.ms
        var line = capture(minimum: 60_000)
        var latency = line.latency(base: Self.base)
        #expect(latency == minimum)
        for delay in [Int64.min, -1, 0, Int64.max] {
            for time in [0, 1, UInt64(Int64.max)] {
                let grew = line.setDelay(delay, path: 1, base: Self.base)
                let next = line.latency(base: Self.base)
                #expect(next >= latency && (next > latency) == grew, "delay \(delay)")
                latency = next
                let (moved, shift) = (line.moved(time, base: Self.base), line.shift(base: Self.base))
                #expect(shift >= 0 ? moved <= time : moved >= time, "\(time) by \(shift) to \(moved)")
                #expect(line.latency(base: time) >= max(time, minimum))
                line.frameLeft(interval: time)
            }
        }
        #expect(latency >= UInt64(Int64.max))
    }
}
