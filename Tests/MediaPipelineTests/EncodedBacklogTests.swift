import MediaPipeline
import Testing

@Suite struct EncodedBacklogTests {
    /// Appends frames by their numbers; returns those that are kept.
    private func kept(_ numbers: ClosedRange<Int>, keyframes: Set<Int>, bytes: Int = 100) -> [Int] {
        var backlog = EncodedBacklog<Int>()
        for number in numbers { backlog.append(number, isKeyframe: keyframes.contains(number), bytes: bytes) }
        return backlog.take()
    }

    @Test func allFramesFromTheKeyframeOnAreKept() {
        #expect(kept(1...5, keyframes: [3]) == [3, 4, 5])
        #expect(kept(1...4, keyframes: [1, 3]) == [1, 2, 3, 4])
        #expect(kept(1...4, keyframes: []).isEmpty)
    }

    @Test func theyAreTakenOnce() {
        var backlog = EncodedBacklog<Int>()
        backlog.append(1, isKeyframe: true, bytes: 1)
        #expect(backlog.take() == [1])
        backlog.append(2, isKeyframe: false, bytes: 1)
        #expect(backlog.take().isEmpty, "its keyframe has gone")
    }

    @Test func tooManyAreDroppedUpToAKeyframe() {
        #expect(kept(1...30, keyframes: [1]).isEmpty)
        #expect(kept(1...30, keyframes: [1, 25]) == [25, 26, 27, 28, 29, 30])
        #expect(kept(1...2, keyframes: [1], bytes: 3_000_000).isEmpty)
    }
}
