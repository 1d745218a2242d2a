/// The reason why a DTLS association failed. Codes may be added.
package struct DTLSError: Error, Sendable, Equatable, CustomStringConvertible {
    package struct Code: RawRepresentable, Hashable, Sendable {
        package let rawValue: String
        package init(rawValue: String) { self.rawValue = rawValue }

        /// OpenSSL could not create or configure an object.
        package static let setup = Code(rawValue: "setup")
        /// The handshake failed: no common cipher, a fatal alert or an invalid message.
        package static let handshake = Code(rawValue: "handshake")
        /// The peer did not answer any of the retransmissions.
        package static let timeout = Code(rawValue: "timeout")
        /// The peer's certificate does not match a fingerprint from signalling. A retry is pointless.
        package static let fingerprintMismatch = Code(rawValue: "fingerprintMismatch")
        /// The peers have no SRTP profile in common.
        package static let noSRTPProfile = Code(rawValue: "noSRTPProfile")
        /// The peer sent more data than a handshake can need.
        package static let limitExceeded = Code(rawValue: "limitExceeded")
    }

    package let code: Code
    package let message: String
    /// OpenSSL's error reasons, oldest first. They contain no key material.
    package let library: String?

    package init(_ code: Code, _ message: String, library: String? = nil) {
        self.code = code
        self.message = message
        self.library = library
    }

    package var description: String {
        library.map { "\(message) (\($0))" } ?? message
    }

    /// Drains this thread's OpenSSL error queue into an error.
    static func drained(_ code: Code, _ message: String) -> DTLSError {
        DTLSError(code, message, library: ErrorQueue.drain().text)
    }
}
