// Converts between the types of the session and those of the peer connection, here for rooms and in `DecartElements` for
// direct connections.
package import DecartProtocol
package import DecartSession
package import WebRTCTransport

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

extension SessionError {
    package init(_ error: PeerConnectionError) {
        self.init(
            error.code == .profile ? .invalidInput : .webRTC, "\(error.message.capitalizedFirst).", stage: .media,
            isPermanent: [.fingerprintMismatch, .missingElement, .profile].contains(error.code))
    }
}
