private import COpenSSL

/// Why a DTLS connection ended or never began. Open: more codes may come.
package struct DTLSError: Error, Sendable, Equatable, CustomStringConvertible {
    package struct Code: RawRepresentable, Hashable, Sendable {
        package let rawValue: String
        package init(rawValue: String) { self.rawValue = rawValue }

        /// OpenSSL could not make or configure an object.
        package static let setup = Code(rawValue: "setup")
        /// The handshake broke: no shared cipher, a fatal alert, a bad message.
        package static let handshake = Code(rawValue: "handshake")
        /// Too many retransmissions without an answer.
        package static let timeout = Code(rawValue: "timeout")
        /// The certificate is not the one that the signalling announced. Never retry.
        package static let fingerprintMismatch = Code(rawValue: "fingerprintMismatch")
        /// No SRTP profile in common.
        package static let noSRTPProfile = Code(rawValue: "noSRTPProfile")
        /// The peer sent more than a handshake can need.
        package static let limitExceeded = Code(rawValue: "limitExceeded")
    }

    package let code: Code
    package let message: String
    /// What OpenSSL had to say, oldest first; never key material.
    package let library: String?

    package init(_ code: Code, _ message: String, library: String? = nil) {
        self.code = code
        self.message = message
        self.library = library
    }

    package var description: String {
        library.map { "\(message) (\($0))" } ?? message
    }

    /// Takes OpenSSL's error queue of this thread into a value.
    static func drained(_ code: Code, _ message: String) -> DTLSError {
        var reasons: [String] = []
        while reasons.count < 8 {
            let number = ERR_get_error()
            if number == 0 { break }
            reasons.append(
                ERR_reason_error_string(number).map { String(cString: $0) } ?? "error \(number)")
        }
        ERR_clear_error()
        return DTLSError(code, message, library: reasons.isEmpty ? nil : reasons.joined(separator: ", "))
    }
}
