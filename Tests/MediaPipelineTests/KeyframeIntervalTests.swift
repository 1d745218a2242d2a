import MediaPipeline
import Testing

@Suite struct KeyframeIntervalTests {
    /// The tenths of a second at which a keyframe is requested, of a stream of ten frames a second.
    private func requests(keyframesAt keyframes: Set<Int>, interval: Int, upTo end: Int = 100) -> [Int] {
        var value = KeyframeInterval()
        return (0...end).filter { frame in
            value.add(
                isKeyframe: keyframes.contains(frame), interval: .milliseconds(100 * interval),
                now: .milliseconds(100 * frame))
        }
    }

    @Test func aRequestThatIsNotAnsweredIsRepeated() {
        #expect(requests(keyframesAt: [0], interval: 20, upTo: 65) == [20, 40, 60])
    }

    @Test func aKeyframeRestartsTheInterval() {
        #expect(requests(keyframesAt: [0, 15, 22, 45], interval: 20, upTo: 64) == [42])
    }

    @Test func nothingIsRequestedBeforeTheFirstKeyframeNorWithoutAnInterval() {
        #expect(requests(keyframesAt: [], interval: 20).isEmpty)
        #expect(requests(keyframesAt: [0], interval: 0).isEmpty)
    }
}
