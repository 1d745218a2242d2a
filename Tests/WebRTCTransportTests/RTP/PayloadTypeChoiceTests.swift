import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct PayloadTypeChoiceTests {
    private func verdicts(_ choice: PayloadTypeChoice, _ types: [Int]) -> [PayloadTypeChoice.Verdict] {
        var choice = choice
        return types.map { choice.take($0) }
    }

    /// Comfort noise or telephone events beside Opus must not take the place of the audio.
    @Test func whatWasNotNegotiatedIsNoMedia() {
        #expect(
            verdicts(PayloadTypeChoice(expected: 111), [77, 111, 77, -1, 111]) == [
                .other, .media, .other, .other, .media,
            ])
        #expect(verdicts(PayloadTypeChoice(), [0, 96, 111]) == [.other, .other, .other])
    }

    @Test func theFirstPacketChoosesTheCodec() {
        let choice = PayloadTypeChoice(expected: 96, alternatives: [98, 102])
        #expect(verdicts(choice, [97, 98, 98]) == [.other, .changed, .media])
        #expect(verdicts(choice, [96, 96]) == [.media, .media])
    }
}
