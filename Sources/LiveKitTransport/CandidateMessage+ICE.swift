package import DecartProtocol
package import WebRTCTransport

// Converts candidates between signalling and ICE.

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
