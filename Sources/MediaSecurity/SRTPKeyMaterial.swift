private import COpenSSL

package enum SRTPProfile: Sendable, CaseIterable {
    /// Preferred: with Debian's libsrtp the other profile costs 4.5 times as much per packet.
    case aeadAES128GCM
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case aes128CMSHA1_80

    /// RFC 5764 §4.1.2, RFC 7714 §14.2.
    var opensslName: String {
        switch self {
        case .aeadAES128GCM: "SRTP_AEAD_AES_128_GCM"
        case .aes128CMSHA1_80: "SRTP_AES128_CM_SHA1_80"
        }
    }

    package var keyLength: Int { 16 }
    /// The salt is 12 bytes with GCM (RFC 7714 §12) and 14 bytes with counter mode (RFC 3711).
    package var saltLength: Int { self == .aeadAES128GCM ? 12 : 14 }
}

/// The SRTP keys of one session, local (for sending) and remote. Its printed forms are redacted, and the bytes are
/// overwritten when the last copy is released.
package struct SRTPKeyMaterial: Sendable {
    package let profile: SRTPProfile
    private let local: Secret
    private let remote: Secret

    /// - Parameters: master key followed by master salt, `profile.keyLength + profile.saltLength` bytes.
    /// - Returns: nil if a length is wrong.
    package init?(profile: SRTPProfile, local: [UInt8], remote: [UInt8]) {
        let length = profile.keyLength + profile.saltLength
        guard local.count == length, remote.count == length else { return nil }
        self.profile = profile
        self.local = Secret(local)
        self.remote = Secret(remote)
    }

    /// Splits the exported block of RFC 5764 §4.2: client key, server key, client salt, server salt.
    package init?(profile: SRTPProfile, exported: [UInt8], role: DTLSRole) {
        let (key, salt) = (profile.keyLength, profile.saltLength)
        guard exported.count == 2 * (key + salt) else { return nil }
        let client = exported[0..<key] + exported[(2 * key)..<(2 * key + salt)]
        let server = exported[key..<(2 * key)] + exported[(2 * key + salt)..<(2 * key + 2 * salt)]
        self.init(
            profile: profile, local: Array(role == .client ? client : server),
            remote: Array(role == .client ? server : client))
    }

    package func withLocal<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T { try local.with(body) }
    /// Calls `body` with the remote key and salt.
    package func withRemote<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T { try remote.with(body) }

    /// True if both belong to the same handshake, one to each peer. For tests.
    package func mirrors(_ other: SRTPKeyMaterial) -> Bool {
        profile == other.profile && local.bytes == other.remote.bytes && remote.bytes == other.local.bytes
    }

    // @unchecked: `bytes` is written only in init and deinit.
    private final class Secret: @unchecked Sendable {
        private(set) var bytes: [UInt8]
        init(_ bytes: [UInt8]) { self.bytes = bytes }
        deinit {
            bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
        }
        func with<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
            try bytes.withUnsafeBytes(body)
        }
    }
}

extension SRTPKeyMaterial: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "SRTPKeyMaterial(\(profile), <redacted>)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["profile": profile]) }
}
