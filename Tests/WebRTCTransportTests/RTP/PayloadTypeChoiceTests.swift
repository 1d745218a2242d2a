import RTP
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct PayloadTypeChoiceTests {
    /// The verdicts on packets of these types, `interval` ms apart.
    private func verdicts(
        _ choice: PayloadTypeChoice, _ types: [Int], interval: Int = 20
    ) -> [PayloadTypeChoice.Verdict] {
        var choice = choice
        return types.enumerated().map { choice.classify($1, now: .milliseconds($0 * interval)) }
    }

    /// Comfort noise or telephone events beside Opus must not take the place of the audio.
    @Test func whatWasNotNegotiatedIsNoMedia() {
        let audio = PayloadTypeChoice(expected: 111)
        #expect(verdicts(audio, [77, 111, 77, -1, 111]) == [.other, .media, .other, .other, .media])
        #expect(verdicts(audio, Array(repeating: 77, count: 100)).allSatisfy { $0 == .other })
        #expect(verdicts(PayloadTypeChoice(), [0, -1, 111]) == [.other, .other, .other])
    }

    private let video = PayloadTypeChoice(expected: 96, alternatives: [98, 102])

    @Test func theFirstPacketChoosesTheCodec() {
        #expect(verdicts(video, [97, 98, 98, 96, 98]) == [.other, .changed, .media, .other, .media])
        #expect(verdicts(video, [96, 96]) == [.media, .media])
    }

    @Test func aLastingChangeIsFollowed() {
        // RTX does not interrupt the row.
        let types = [96, 98, 97, 98, 98, 98, 98, 96, 98]
        let expected: [PayloadTypeChoice.Verdict] = [
            .media, .other, .other, .other, .other, .changed, .media, .other, .media,
        ]
        #expect(verdicts(video, types, interval: 100) == expected)
    }

    @Test func straysAreNoChange() {
        let burst = [96] + Array(repeating: 98, count: 24) + [96]
        #expect(verdicts(video, burst).filter { $0 != .other } == [.media, .media], "shorter than 500 ms")
        let types = [96, 98, 98, 102, 98, 102, 102, 96]
        #expect(
            verdicts(video, types, interval: 1000).filter { $0 != .other } == [.media, .media], "no three in a row")
    }

    /// A packet with which a stream may begin needs nothing of what was before it.
    @Test func aKeyframeIsFollowedAtOnce() {
        var choice = video
        let packets: [(type: Int, canFollow: Bool, at: Int, verdict: PayloadTypeChoice.Verdict)] = [
            (96, false, 0, .media), (98, false, 10, .other), (98, true, 20, .changed), (98, false, 30, .media),
            // Back again at once would make decoders as fast as a remote peer wants.
            (96, true, 40, .other), (98, false, 50, .media), (96, true, 1019, .other), (96, true, 1020, .changed),
            (77, true, 3000, .other),
        ]
        for packet in packets {
            let verdict = choice.classify(
                packet.type, canFollow: packet.canFollow, now: .milliseconds(packet.at))
            #expect(verdict == packet.verdict, "\(packet)")
        }
    }

    @Test func anotherStreamChoosesAnew() {
        var choice = video
        #expect(choice.classify(96, now: .zero) == .media)
        choice.restart()
        #expect(choice.classify(97, now: .milliseconds(1)) == .other)
        #expect(choice.classify(102, now: .milliseconds(2)) == .changed && choice.active == 102)
        #expect(choice.classify(96, now: .milliseconds(3)) == .other)
    }

    /// A remote peer that changes stream and codec with each packet would make a decoder for each.
    @Test func streamsThatChangeFastDoNotChangeTheCodecAsFast() {
        var choice = video
        let changes = (0..<3000).filter { number in
            choice.restart()
            return choice.classify([96, 98, 102][number % 3], canFollow: true, now: .milliseconds(number)) == .changed
        }
        #expect(changes == [1, 1001, 2001], "\(changes)")
        // What is new stays, and is followed in the end.
        choice.restart()
        let later = (0..<60).filter { choice.classify(98, now: .milliseconds(3000 + $0 * 10)) == .changed }
        #expect(later == [50], "\(later)")
    }

    /// A later negotiation adds types and removes them.
    @Test func otherTypes() {
        var choice = video
        #expect(choice.classify(98, now: .zero) == .changed)
        choice.update(expected: 96, alternatives: [98, 35])
        #expect(choice.active == 98 && choice.classify(98, now: .milliseconds(1)) == .media)
        #expect(choice.classify(102, canFollow: true, now: .seconds(2)) == .other)
        choice.update(expected: 35, alternatives: [96])
        #expect(choice.active == 35 && choice.classify(96, now: .seconds(3)) == .changed)
    }
}
