import DecartElements
import Testing

/// When a session begins with the input, and when the input has ended, without a pipeline.
@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct InputPhaseTests {
    @Test func theFirstVideoBeginsTheSession() {
        var phase = InputPhase(awaitsVideo: true)
        #expect(phase.videoCame() == true)
        #expect(!phase.videoCame() && !phase.awaitsVideo)
    }

    @Test func aSessionThatWaitsForNothingBeginsElsewhere() {
        var phase = InputPhase(awaitsVideo: false)
        #expect(!phase.videoCame() && !phase.stopAwaiting())
    }

    @Test func noVideoLeavesAfterTheEnd() {
        var phase = InputPhase(awaitsVideo: true)
        #expect(phase.end(byApplication: false) == true)
        #expect(!phase.videoCame() && phase.awaitsVideo)
    }

    @Test func theApplicationDecidesBeforeVideo() {
        var phase = InputPhase(awaitsVideo: true)
        #expect(phase.stopAwaiting() == true)
        #expect(phase.videoCame() == false)
    }

    @Test func audioAloneIsReportedOnce() {
        var phase = InputPhase(awaitsVideo: true)
        #expect(phase.audioCameAlone() && phase.hasWarnedOfAudio)
        #expect(phase.audioCameAlone() == false)
    }

    @Test func audioIsNotAloneBehindVideo() {
        var phase = InputPhase(awaitsVideo: true)
        _ = phase.videoCame()
        #expect(!phase.audioCameAlone() && !phase.hasWarnedOfAudio)
    }

    @Test func theInputEndsOnce() {
        var phase = InputPhase(awaitsVideo: false)
        #expect(phase.end(byApplication: false) == true)
        #expect(!phase.end(byApplication: false) && phase.isDraining)
    }

    @Test(arguments: [true, false]) func anEndIsUndoneByAFlushAndByAnotherStream(afterFlush: Bool) {
        var phase = InputPhase(awaitsVideo: false)
        #expect(phase.resume(afterFlush: afterFlush) == false)
        _ = phase.end(byApplication: false)
        #expect(phase.resume(afterFlush: afterFlush) && !phase.isDraining)
        #expect(phase.end(byApplication: false) == true)
    }

    @Test func theApplicationsEndIsUndoneByAFlushAlone() {
        var phase = InputPhase(awaitsVideo: false)
        _ = phase.end(byApplication: false)
        // It ends all streams, also if this one has ended already.
        #expect(phase.end(byApplication: true) == false)
        #expect(!phase.resume(afterFlush: false) && phase.isDraining)
        #expect(phase.resume(afterFlush: true) && !phase.isEndedByApplication)
    }
}
