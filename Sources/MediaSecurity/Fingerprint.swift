/// A certificate fingerprint as in SDP (RFC 8122 §5).
package struct Fingerprint: Sendable, Equatable {
    package enum Hash: String, Sendable, CaseIterable {
        case sha256 = "sha-256"
        case sha384 = "sha-384"
        case sha512 = "sha-512"

        package var length: Int {
            switch self {
            case .sha256: 32
            case .sha384: 48
            case .sha512: 64
            }
        }
    }

    package let hash: Hash
    package let digest: [UInt8]

    init(hash: Hash, digest: [UInt8]) {
        self.hash = hash
        self.digest = digest
    }

    /// - Parameter sdpValue: "sha-256 AB:CD:…", case-insensitive. The result is nil for a broken (sha-1, md5) or
    ///   unknown hash, and for a digest of the wrong length.
    package init?(sdpValue: String) {
        guard sdpValue.utf8.count <= 256 else { return nil }
        let words = sdpValue.split(whereSeparator: { $0 == " " || $0 == "\t" || $0.isNewline })
        guard words.count == 2, let name = words.first, let text = words.last,
            let hash = Hash(rawValue: name.lowercased())
        else { return nil }
        var digest: [UInt8] = []
        for pair in text.split(separator: ":", omittingEmptySubsequences: false) {
            guard pair.utf8.count == 2, pair.allSatisfy(\.isHexDigit), let byte = UInt8(pair, radix: 16) else {
                return nil
            }
            digest.append(byte)
        }
        guard digest.count == hash.length else { return nil }
        self.init(hash: hash, digest: digest)
    }

    /// "sha-256 AB:CD:…", in upper case as RFC 8122 requires.
    package var sdpValue: String {
        let pairs = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }
        return "\(hash.rawValue) \(pairs.joined(separator: ":"))"
    }
}
