// Candidates travel as JSON inside the protobuf message, as browsers serialise them.
import DecartProtocol
import LiveKitProtocol
import SwiftProtobuf

enum CandidateText {
    /// nil: nothing to say; the end of candidates is an empty message with `final`.
    static func write(_ candidate: CandidateMessage?, _ target: LiveKitSignalTarget) -> LiveKitTrickleRequest? {
        guard let candidate else { return nil }
        // Every key: official clients stop at a missing one.
        let whole = CandidateMessage(
            candidate: candidate.candidate, sdpMid: candidate.sdpMid ?? "0", sdpMLineIndex: candidate.sdpMLineIndex ?? 0)
        guard let text = try? whole.encodedInit() else { return nil }
        return .with {
            $0.candidateInit = String(decoding: text, as: UTF8.self)
            $0.target = target
        }
    }

    /// nil: not readable.
    static func read(_ text: String) -> CandidateMessage? {
        try? CandidateMessage(decodingInit: [UInt8](text.utf8))
    }
}
