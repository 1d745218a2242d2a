import DecartProtocol
import WebRTCTransport

// A candidate as signalling writes it, and as ICE takes and gives it.

extension ICECandidate {
    init(_ message: CandidateMessage) {
        self.init(candidate: message.candidate, sdpMid: message.sdpMid, sdpMLineIndex: message.sdpMLineIndex)
    }
}

extension CandidateMessage {
    init(_ candidate: ICECandidate) {
        self.init(
            candidate: candidate.candidate, sdpMid: candidate.sdpMid, sdpMLineIndex: candidate.sdpMLineIndex)
    }
}
