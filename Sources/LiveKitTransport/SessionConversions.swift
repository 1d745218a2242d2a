// Converts between the types of the session and those of the peer connection, here for rooms and in `DecartElements` for
// direct connections.
package import DecartProtocol
package import DecartSession
import LiveKitProtocol
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

extension LiveKitTrickleRequest {
    /// The candidate travels as JSON, as browsers serialise it.
    init?(_ candidate: CandidateMessage, _ target: LiveKitSignalTarget) {
        var whole = candidate
        // Write every key: official clients fail if one is missing.
        (whole.sdpMid, whole.sdpMLineIndex) = (candidate.sdpMid ?? "0", candidate.sdpMLineIndex ?? 0)
        guard let text = try? whole.encodedInit() else { return nil }
        self.init()
        (candidateInit, self.target) = (String(decoding: text, as: UTF8.self), target)
    }
}

extension SessionError {
    package init(_ error: PeerConnectionError) {
        self.init(
            error.code == .profile ? .invalidInput : .webRTC, "\(error.message.capitalizedFirst).", stage: .media,
            isPermanent: [.fingerprintMismatch, .missingElement, .profile].contains(error.code))
    }
}
