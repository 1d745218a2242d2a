import MediaSecurity
import Testing

@Suite(.timeLimit(.minutes(1)))
struct FingerprintTests {
    static let digest = (0..<32).map { $0 < 16 ? "0\(String($0, radix: 16))" : String($0, radix: 16) }

    @Test
    func readsAnyCaseAndWritesUpper() throws {
        let lower = "sha-256 " + Self.digest.joined(separator: ":")
        let fingerprint = try #require(Fingerprint(sdpValue: lower))
        #expect(fingerprint.sdpValue == "sha-256 " + Self.digest.joined(separator: ":").uppercased())
        #expect(Fingerprint(sdpValue: lower.uppercased()) == fingerprint)
        #expect(Fingerprint(sdpValue: "  " + lower + "\r\n") == fingerprint)
        #expect(Fingerprint(sdpValue: fingerprint.sdpValue) == fingerprint)
    }

    @Test(arguments: [("sha-256", 32), ("sha-384", 48), ("sha-512", 64)])
    func lengthsMustFit(hash: String, length: Int) {
        for count in 0...70 {
            let value = Self.value(hash, count: count)
            #expect((Fingerprint(sdpValue: value) != nil) == (count == length), "\(value)")
        }
    }

    static func value(_ hash: String, _ pair: String = "0F", count: Int = 32, separator: String = ":") -> String {
        "\(hash) " + Array(repeating: pair, count: count).joined(separator: separator)
    }

    static let refused: [String] = [
        "", "sha-256", "sha-256 ", value("sha-1", count: 20), value("md5", count: 16),
        value("sha-256", separator: "-"), value("sha-256", "F"), value("sha-256", "+F"), value("sha-256", "0G"),
        value("sha-256", "é"), value("sha-256") + " x", value("sha-256") + ":",
    ]

    @Test(arguments: refused)
    func refuses(_ value: String) {
        #expect(Fingerprint(sdpValue: value) == nil)
    }

    @Test
    func certificatesDiffer() throws {
        let first = try DTLSCertificate.generate()
        let second = try DTLSCertificate.generate()
        #expect(first.fingerprint != second.fingerprint)
        #expect(Fingerprint(sdpValue: first.fingerprint.sdpValue) == first.fingerprint)
    }

    /// The argument selects the wrong fingerprint: the one that the client checks, or the one that the server checks.
    @Test(arguments: [true, false])
    func mismatchFailsAndGivesNoKeys(clientIsDeceived: Bool) throws {
        let pair = try DTLSPair(fingerprints: false)
        let stranger = try DTLSCertificate.generate().fingerprint
        pair.client.setRemoteFingerprints([clientIsDeceived ? stranger : pair.serverCertificate.fingerprint])
        pair.server.setRemoteFingerprints([clientIsDeceived ? pair.clientCertificate.fingerprint : stranger])
        pair.handshake()
        let deceived = clientIsDeceived ? pair.clientError : pair.serverError
        #expect(deceived?.code == .fingerprintMismatch)
        #expect((clientIsDeceived ? pair.clientKeys : pair.serverKeys) == nil)
        // The alert reaches the other endpoint too, which gets no keys either.
        #expect((clientIsDeceived ? pair.serverError : pair.clientError)?.code == .handshake)
        #expect(pair.clientKeys == nil)
        #expect(pair.serverKeys == nil)
        // A later correct fingerprint changes nothing.
        #expect(!pair.client.setRemoteFingerprints([pair.serverCertificate.fingerprint]).isEstablished)
        #expect(!pair.server.setRemoteFingerprints([pair.clientCertificate.fingerprint]).isEstablished)
    }

    @Test
    func anyOfSeveralMayMatch() throws {
        let pair = try DTLSPair(fingerprints: false)
        let stranger = try DTLSCertificate.generate().fingerprint
        pair.client.setRemoteFingerprints([stranger, pair.serverCertificate.fingerprint])
        pair.server.setRemoteFingerprints([pair.clientCertificate.fingerprint, stranger])
        pair.handshake()
        #expect(pair.isEstablished)
    }

    /// The ClientHello, and even a whole handshake, may arrive before signalling delivers the peer's fingerprint.
    @Test(arguments: [true, false])
    func lateFingerprint(clientIsLate: Bool) throws {
        let pair = try DTLSPair(fingerprints: false)
        if clientIsLate {
            pair.server.setRemoteFingerprints([pair.clientCertificate.fingerprint])
        } else {
            pair.client.setRemoteFingerprints([pair.serverCertificate.fingerprint])
        }
        pair.handshake()
        #expect((clientIsLate ? pair.clientKeys : pair.serverKeys) == nil)
        #expect((clientIsLate ? pair.serverKeys : pair.clientKeys) != nil)
        if clientIsLate {
            pair.note(pair.client.setRemoteFingerprints([pair.serverCertificate.fingerprint]), client: true)
        } else {
            pair.note(pair.server.setRemoteFingerprints([pair.clientCertificate.fingerprint]), client: false)
        }
        #expect(try #require(pair.clientKeys).mirrors(#require(pair.serverKeys)))
    }

    @Test(arguments: [true, false])
    func lateMismatch(clientIsLate: Bool) throws {
        let pair = try DTLSPair(fingerprints: false)
        let stranger = try DTLSCertificate.generate().fingerprint
        pair.handshake()
        #expect(!pair.isEstablished)
        pair.note((clientIsLate ? pair.client : pair.server).setRemoteFingerprints([stranger]), client: clientIsLate)
        #expect((clientIsLate ? pair.clientError : pair.serverError)?.code == .fingerprintMismatch)
        #expect(pair.clientKeys == nil)
        #expect(pair.serverKeys == nil)
        pair.run()
        #expect(clientIsLate ? pair.serverClosed : pair.clientClosed)
    }

    @Test
    func noFingerprintAtAll() throws {
        let pair = try DTLSPair(fingerprints: false)
        pair.note(pair.server.setRemoteFingerprints([]), client: false)
        #expect(pair.serverError?.code == .fingerprintMismatch)
        pair.handshake()
        #expect(!pair.isEstablished)
        // Without a fingerprint the client waits and exports no keys.
        #expect(pair.clientKeys == nil)
    }

    /// A fingerprint with another hash function, sha-512, is compared as well.
    @Test
    func otherHashes() throws {
        let pair = try DTLSPair(fingerprints: false)
        pair.client.setRemoteFingerprints([pair.serverCertificate.fingerprint])
        let wrong = try #require(
            Fingerprint(sdpValue: Self.value("sha-512", "00", count: 64)))
        pair.server.setRemoteFingerprints([wrong])
        pair.handshake()
        #expect(pair.serverError?.code == .fingerprintMismatch)
    }
}

extension DTLSStatus {
    var isEstablished: Bool { if case .established = self { true } else { false } }
}
