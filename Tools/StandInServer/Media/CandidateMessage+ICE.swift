package import DecartProtocol
package import WebRTCTransport

// Converts between the candidate of the signalling protocol and that of the transport.

extension ICECandidate {
    package init(_ message: CandidateMessage) {
        self.init(
            candidate: message.candidate, sdpMid: message.sdpMid, sdpMLineIndex: message.sdpMLineIndex,
            usernameFragment: message.usernameFragment)
    }
}

extension CandidateMessage {
    package init(_ candidate: ICECandidate) {
        self.init(
            candidate: candidate.candidate, sdpMid: candidate.sdpMid, sdpMLineIndex: candidate.sdpMLineIndex,
            usernameFragment: candidate.usernameFragment)
    }
}
