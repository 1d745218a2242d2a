package import DecartProtocol
package import WebRTCTransport

// A candidate as signalling writes it, and as ICE takes and gives it.

extension ICECandidate {
    package init(_ message: CandidateMessage) {
        self.init(candidate: message.candidate, sdpMid: message.sdpMid, sdpMLineIndex: message.sdpMLineIndex)
    }
}

extension CandidateMessage {
    package init(_ candidate: ICECandidate) {
        self.init(
            candidate: candidate.candidate, sdpMid: candidate.sdpMid, sdpMLineIndex: candidate.sdpMLineIndex)
    }
}
