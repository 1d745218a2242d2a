// Candidates travel as JSON inside the protobuf message, as browsers serialise them.
import DecartProtocol
import LiveKitProtocol

enum CandidateText {
    /// Returns nil for the end of candidates, which LiveKit marks with an empty message and `final`; we do not send
    /// that.
    static func write(_ candidate: CandidateMessage?, _ target: LiveKitSignalTarget) -> LiveKitTrickleRequest? {
        guard let candidate else { return nil }
        // Write every key: official clients fail if one is missing.
        let whole = CandidateMessage(
            candidate: candidate.candidate, sdpMid: candidate.sdpMid ?? "0",
            sdpMLineIndex: candidate.sdpMLineIndex ?? 0,
            usernameFragment: candidate.usernameFragment)
        guard let text = try? whole.encodedInit() else { return nil }
        return .with {
            $0.candidateInit = String(decoding: text, as: UTF8.self)
            $0.target = target
        }
    }
}
