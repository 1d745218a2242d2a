import DecartProtocol
import StandInServer
import Testing

struct AnswerCandidatesTests {
    /// A client that offers again and again, while no candidate is found.
    @Test func heldAnswersAreBounded() {
        var candidates = AnswerCandidates(trickles: false)
        let most = AnswerCandidates.maximumHeld
        let answers = (0..<most * 3).map { "v=0\r\ns=\($0)\r\n" }
        let sent = answers.map { candidates.add(answer: $0) }
        let whole = (0..<3).map { answers[$0 * most..<($0 + 1) * most].map { ServerMessage.answer(sdp: $0) } }
        #expect(sent.enumerated().allSatisfy { ($0.offset % most == most - 1) != $0.element.isEmpty })
        #expect(sent.filter { !$0.isEmpty } == whole)
        let rest = candidates.add(nil)
        #expect(rest.isEmpty, "nothing is held any more")
    }
}
