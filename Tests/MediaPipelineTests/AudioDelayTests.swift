import GStreamerKit
import Testing

import MediaPipeline

@Suite struct AudioDelayTests {
    private static let ms: ClockTime = 1_000_000

    /// In ms.
    private struct Follower {
        var delay = AudioDelay()
        mutating func follow(own: ClockTime, video: ClockTime, isQuiet: Bool = false) -> ClockTime {
            delay.follow(own: own * AudioDelayTests.ms, video: video * AudioDelayTests.ms, isQuiet: isQuiet)
            return delay.current / AudioDelayTests.ms
        }
    }

    @Test func itChangesOnlyForLateSamplesAndLipSync() {
        var follower = Follower()
        let steady = [(5, 5), (20, 60), (10, 3), (25, 40)].map { follower.follow(own: $0.0, video: $0.1) }
        #expect(steady == [30, 30, 30, 30], "the noise of the video's delay is not heard")
        let risen = [(50, 5), (50, 84), (50, 120)].map { follower.follow(own: $0.0, video: $0.1) }
        #expect(risen == [55, 55, 95], "at most 30 ms ahead of the video")
    }

    @Test func itFallsByPacketsInAPauseOfSpeechOrIfItIsFarBehind() {
        var follower = Follower()
        _ = follower.follow(own: 100, video: 10)
        let spoken = [(90, 10), (70, 10), (70, 10), (64, 10)].map { follower.follow(own: $0.0, video: $0.1) }
        #expect(spoken == [105, 105, 105, 85])
        let quiet = [64, 10, 10, 10].map { follower.follow(own: $0, video: 10, isQuiet: true) }
        #expect(quiet == [65, 45, 45, 45])
    }
}
