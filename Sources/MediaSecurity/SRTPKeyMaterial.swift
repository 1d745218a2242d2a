private import COpenSSL

package enum SRTPProfile: Sendable, CaseIterable {
    /// Preferred: with libsrtp's library on Debian the other costs 4.5 times as much per packet.
    case aeadAES128GCM
    case aes128CMSHA1_80

    /// RFC 5764 §4.1.2, RFC 7714 §14.2.
    var opensslName: String {
        switch self {
        case .aeadAES128GCM: "SRTP_AEAD_AES_128_GCM"
        case .aes128CMSHA1_80: "SRTP_AES128_CM_SHA1_80"
        }
    }

    package var keyLength: Int { 16 }
    /// RFC 7714 §12 and RFC 3711: the exported layout differs here (trap D2).
    package var saltLength: Int { self == .aeadAES128GCM ? 12 : 14 }
}

/// The keys of one session, local (what we send with) and remote. Every print of it is redacted, and the bytes are
/// overwritten when the last copy goes.
package struct SRTPKeyMaterial: Sendable {
    package let profile: SRTPProfile
    private let local: Secret
    private let remote: Secret

    /// - Parameters: master key and salt behind each other, `profile.keyLength + profile.saltLength` bytes.
    /// - Returns: `nil` for wrong lengths.
    package init?(profile: SRTPProfile, local: [UInt8], remote: [UInt8]) {
        let length = profile.keyLength + profile.saltLength
        guard local.count == length, remote.count == length else { return nil }
        self.profile = profile
        self.local = Secret(local)
        self.remote = Secret(remote)
    }

    /// Takes apart RFC 5764 §4.2's block: client key, server key, client salt, server salt.
    package init?(profile: SRTPProfile, exported: [UInt8], role: DTLSRole) {
        let (key, salt) = (profile.keyLength, profile.saltLength)
        guard exported.count == 2 * (key + salt) else { return nil }
        let client = exported[0..<key] + exported[(2 * key)..<(2 * key + salt)]
        let server = exported[key..<(2 * key)] + exported[(2 * key + salt)..<(2 * key + 2 * salt)]
        self.init(
            profile: profile, local: Array(role == .client ? client : server),
            remote: Array(role == .client ? server : client))
    }

    /// Lends the local key and salt.
    package func withLocal<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T { try local.with(body) }
    /// Lends the remote key and salt.
    package func withRemote<T>(_ body: (UnsafeRawBufferPointer) throws -> T) rethrows -> T { try remote.with(body) }

    /// Whether both are the two ends of one handshake. For tests.
    package func mirrors(_ other: SRTPKeyMaterial) -> Bool {
        profile == other.profile && local.bytes == other.remote.bytes && remote.bytes == other.local.bytes
    }

    // Written in init and deinit only.
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
