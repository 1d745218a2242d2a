// Converts between the types of the session and those of the peer connection, here for rooms and in `DecartElements` for
// direct connections.
package import DecartProtocol
package import DecartSession
package import WebRTCTransport

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

extension SessionError {
    /// Converts the error of a peer connection into an error of the media stage.
    package init(_ error: PeerConnectionError) {
        let text = error.message
        self.init(
            .webRTC, (text.first.map { $0.uppercased() + text.dropFirst() } ?? "") + ".", stage: .media,
            isPermanent: [.fingerprintMismatch, .missingElement].contains(error.code))
    }
}
