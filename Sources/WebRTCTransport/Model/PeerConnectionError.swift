package struct PeerConnectionError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// No candidate pair worked, or the path died (nothing arrived for 30 s).
        case ice
        case dtls
        /// The remote certificate does not match the signalled fingerprint. Never retried.
        case fingerprintMismatch
        case badDescription
        /// A later description has another certificate: only a new connection can go on.
        case changedCertificate
        /// The remote peer rejected the video, or has no codec in common with us.
        case rejected
        /// The remote peer rejected the H.264 profile of an encoded input. Never retried.
        case profile
        case missingElement
        case wrongState
    }
    package let code: Code
    package let message: String
    package var description: String { message }

    package static let closedByPeer = PeerConnectionError(.dtls, "the remote peer closed the DTLS connection")

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
