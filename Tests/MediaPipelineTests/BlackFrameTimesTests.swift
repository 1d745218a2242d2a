import GStreamerKit
import MediaPipeline
import Testing

@Suite struct BlackFrameTimesTests {
    private static let ms: ClockTime = 1_000_000
    private var times = BlackFrameTimes()

    private mutating func input(_ time: ClockTime?, isMuted: Bool = false, at: Int = 0) -> Bool {
        times.admits(time.map { $0 * Self.ms }, isMuted: isMuted, at: .milliseconds(at))
    }

    private mutating func black(now: ClockTime? = nil, at: Int) -> ClockTime? {
        times.next(now: now.map { $0 * Self.ms }, at: .milliseconds(at)).map { $0 / Self.ms }
    }

    @Test mutating func blackFramesContinueTheTimesOfTheInput() {
        let isFirst = input(1000)
        let isMuted = !input(1040, isMuted: true, at: 40)
        let black = [black(now: 5, at: 240), black(now: 5, at: 240), black(now: 5, at: 440)]
        #expect(isFirst && isMuted && black == [1240, nil, 1440])
    }

    @Test mutating func withoutInputTheyHaveTheRunningTime() {
        let black = [black(at: 0), black(now: 70, at: 200), black(now: 70, at: 400)]
        #expect(black == [nil, 70, nil])
    }

    @Test mutating func theInputGoesOnBehindTheLastBlackFrame() {
        _ = input(1000)
        _ = black(at: 500)
        let passes = [input(1400), input(1500), input(1540), input(1300)]
        #expect(passes == [false, false, true, true], "no black frame is newer any longer")
    }

    @Test mutating func aSeekBackPasses() {
        _ = input(5000)
        _ = black(at: 100)
        let passes = [input(4500), input(4000)]
        #expect(passes == [false, true])
    }
}
