import MediaPipeline
import Testing

/// Frames of an encoded input on virtual time.
@Suite struct EncodedFlowTests {
    private struct Feed {
        var flow: EncodedFlow
        var now = Duration.zero
        var sequence: UInt64 = 0

        init(framerate: Int = 30, target: Int? = nil) {
            flow = EncodedFlow(framerate: framerate)
            flow.target = target
        }

        mutating func frame(
            _ isKeyframe: Bool = false, bytes: Int = 1000, every interval: Duration = .milliseconds(40)
        ) -> EncodedFlow.Decision {
            now += interval
            sequence += 1
            return flow.frame(bytes: bytes, isKeyframe: isKeyframe, sequence: sequence, now: now)
        }
    }

    @Test func theFirstFrameSentIsAKeyframe() {
        var feed = Feed()
        #expect(feed.frame() == .init(isSent: false, requestsKeyframe: true))
        // The request is repeated after 300 ms.
        let requests = (0..<15).map { _ in feed.frame().requestsKeyframe }
        #expect(requests.count { $0 } == 1 || requests.count { $0 } == 2)
        #expect(feed.frame(true) == .init(isSent: true))
        #expect(feed.frame() == .init(isSent: true))
    }

    @Test func aLostFrameNeedsAKeyframe() {
        var feed = Feed()
        #expect(feed.frame(true).isSent)
        feed.sequence += 1
        #expect(feed.frame() == .init(isSent: false, requestsKeyframe: true))
        #expect(feed.frame(true).isSent)
        feed.flow.restart()
        #expect(!feed.frame().isSent)
    }

    @Test func keyframeRequestIsForwardedAtOnceAndThenPaced() {
        var feed = Feed()
        #expect(feed.frame(true).isSent)
        let (first, second) = (
            feed.flow.keyframeRequested(now: feed.now), feed.flow.keyframeRequested(now: feed.now)
        )
        #expect(first && !second)
        let requests = (0..<10).map { _ in feed.frame().requestsKeyframe }
        #expect(requests.count { $0 } == 1)
        let third = feed.flow.keyframeRequested(now: feed.now + .seconds(1))
        #expect(third)
    }

    /// 2 Mbit/s for a target of 1: a second passes, then nothing up to a keyframe that comes when it is asked for.
    @Test func tooManyBitsAreDroppedToAKeyframe() throws {
        var feed = Feed(target: 1_000_000)
        #expect(feed.frame(true, bytes: 10_000).isSent)
        var decision = feed.frame(bytes: 10_000)
        var sent = 0
        while decision.isSent, sent < 200 { (decision, sent) = (feed.frame(bytes: 10_000), sent + 1) }
        let overload = try #require(decision.overload)
        #expect(overload.reason == .bitrate && overload.target == 1_000_000)
        #expect((1_800_000...2_200_000).contains(overload.bitrate))
        #expect((20...30).contains(sent))
        var requests = 0
        while requests == 0, feed.now < .seconds(20) {
            decision = feed.frame(bytes: 10_000)
            #expect(!decision.isSent && decision.overload == nil)
            if decision.requestsKeyframe { requests += 1 }
        }
        #expect(feed.frame(true, bytes: 10_000).isSent)
    }

    @Test func aKeyframeAndABurstAreNoOverload() {
        var feed = Feed(target: 1_000_000)
        #expect(feed.frame(true, bytes: 60_000).isSent)
        for _ in 0..<100 { #expect(feed.frame(bytes: 4000).isSent) }
    }

    @Test func tooManyFramesAreDroppedToAKeyframe() throws {
        var feed = Feed(framerate: 20)
        #expect(feed.frame(true).isSent)
        var decision = feed.frame(every: .milliseconds(20))
        var sent = 0
        while decision.isSent, sent < 200 { (decision, sent) = (feed.frame(every: .milliseconds(20)), sent + 1) }
        #expect(decision.overload?.reason == .framerate && decision.overload?.maximumFramerate == 20)
        #expect((25...45).contains(sent))
    }

    @Test func theAllowedFrameRatePasses() {
        var feed = Feed(framerate: 20)
        #expect(feed.frame(true).isSent)
        for _ in 0..<500 { #expect(feed.frame(every: .milliseconds(50)).isSent) }
    }
}
