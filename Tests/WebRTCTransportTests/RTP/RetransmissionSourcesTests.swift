import RTP
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct RetransmissionSourcesTests {
    /// Two streams at once: the RTX SSRC of the first one does not repeat the second one.
    @Test func whatIsLearntHoldsWhileTheStreamIsShown() {
        var sources = RetransmissionSources()
        sources.select(1)
        #expect(sources.mayRepeat(1, rtx: 10))
        sources.learn(1, rtx: 10)
        #expect(sources.mayRepeat(1, rtx: 10) && !sources.mayRepeat(2, rtx: 10) && sources.mayRepeat(2, rtx: 20))
        sources.forget(rtx: 10)
        #expect(sources.mayRepeat(2, rtx: 10))
    }

    /// The media SSRC changes, and the RTX SSRC stays.
    @Test(arguments: [[:], [10: 1]] as [[UInt32: UInt32]])
    func anotherStreamMayHaveTheSameRTXStream(declared: [UInt32: UInt32]) {
        var sources = RetransmissionSources(declared: declared)
        sources.select(1)
        sources.learn(1, rtx: 10)
        sources.select(2)
        #expect(sources.mayRepeat(2, rtx: 10))
    }

    @Test func declaredStreamsKeepTheirRTXStreams() {
        var sources = RetransmissionSources(declared: [10: 1, 20: 2])
        for (shown, other) in [(1, 2), (2, 1), (1, 2)] as [(UInt32, UInt32)] {
            sources.select(shown)
            #expect(sources.mayRepeat(shown, rtx: shown * 10) && !sources.mayRepeat(shown, rtx: other * 10))
        }
    }
}
