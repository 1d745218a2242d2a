import DecartElements
import RTP
import Testing

/// What a media path sends, without a connection.
@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct SendStateTests {
    private static func after(_ events: SendState.Event...) -> SendState {
        events.reduce(into: SendState()) { $0.handle($1) }
    }

    @Test func videoWaitsForConnectionAndEncoder() {
        #expect(!Self.after(.connected).sendsVideo)
        #expect(!Self.after(.encoderReady).sendsVideo)
        #expect(Self.after(.connected, .encoderReady).sendsVideo)
        #expect(Self.after(.encoderReady, .connected).sendsVideo)
    }

    @Test func audioWaitsForTheConnectionAlone() {
        #expect(!SendState().sendsAudio)
        #expect(Self.after(.connected).sendsAudio)
    }

    @Test func aMutedKindIsNotSent() {
        let state = Self.after(.connected, .encoderReady, .muted([.video]))
        #expect(!state.sendsVideo && state.sendsAudio && state.isShown)
        #expect(!Self.after(.connected, .muted([.audio])).sendsAudio)
        #expect(Self.after(.connected, .encoderReady, .muted([.video]), .muted([])).sendsVideo)
    }

    @Test func withdrawnVideoIsNotSent() {
        let state = Self.after(.connected, .encoderReady, .published(false))
        #expect(!state.sendsVideo && !state.isShown && state.sendsAudio)
        #expect(Self.after(.connected, .encoderReady, .published(false), .published(true)).sendsVideo)
    }

    @Test func videoWithoutASubscriberPassesTheGate() {
        let state = Self.after(.connected, .encoderReady, .wanted(false))
        #expect(state.sendsVideo && !state.isWanted)
    }

    /// The network thread may report the connection after the end.
    @Test func nothingIsSentAfterTheEnd() {
        var state = Self.after(.connected, .encoderReady, .stopped)
        #expect(!state.sendsVideo && !state.sendsAudio && state.isStopped)
        for event in [.connected, .published(true)] as [SendState.Event] { state.handle(event) }
        #expect(!state.sendsVideo && !state.sendsAudio && !state.isShown)
    }
}
