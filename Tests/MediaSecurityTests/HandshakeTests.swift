import MediaSecurity
import Testing

@Suite(.timeLimit(.minutes(1)))
struct HandshakeTests {
    @Test
    func bothEndsGetTheSameKeys() throws {
        let pair = try DTLSPair()
        pair.handshake()
        let client = try #require(pair.clientKeys)
        let server = try #require(pair.serverKeys)
        #expect(client.mirrors(server))
        #expect(client.profile == .aeadAES128GCM)
        #expect(pair.largestDatagram <= 1_200)
        #expect(pair.client.nextTimeout == nil)
        #expect(pair.server.nextTimeout == nil)
    }

    @Test
    func twoSessionsShareNoKeys() throws {
        let certificates = (try DTLSCertificate.generate(), try DTLSCertificate.generate())
        let (first, second) = (
            try DTLSPair(client: certificates.0, server: certificates.1),
            try DTLSPair(client: certificates.0, server: certificates.1)
        )
        for pair in [first, second] { pair.handshake() }
        #expect(try !(#require(first.clientKeys).mirrors(#require(second.serverKeys))))
    }

    @Test(arguments: [
        ([SRTPProfile.aeadAES128GCM], [SRTPProfile.aeadAES128GCM, .aes128CMSHA1_80], SRTPProfile.aeadAES128GCM),
        ([.aes128CMSHA1_80], [.aeadAES128GCM, .aes128CMSHA1_80], .aes128CMSHA1_80),
        ([.aeadAES128GCM, .aes128CMSHA1_80], [.aes128CMSHA1_80], .aes128CMSHA1_80),
        ([.aes128CMSHA1_80, .aeadAES128GCM], [.aeadAES128GCM, .aes128CMSHA1_80], .aeadAES128GCM),
    ])
    func profiles(client: [SRTPProfile], server: [SRTPProfile], expected: SRTPProfile) throws {
        let pair = try DTLSPair(clientProfiles: client, serverProfiles: server)
        pair.handshake()
        let keys = try #require(pair.clientKeys)
        #expect(try keys.mirrors(#require(pair.serverKeys)))
        #expect(keys.profile == expected)
    }

    @Test
    func noCommonProfileFails() throws {
        let pair = try DTLSPair(clientProfiles: [.aeadAES128GCM], serverProfiles: [.aes128CMSHA1_80])
        pair.handshake()
        #expect(pair.clientKeys == nil)
        #expect(pair.serverKeys == nil)
        #expect(pair.clientError?.code == .noSRTPProfile)
        #expect(pair.serverError?.code == .noSRTPProfile)
    }

    @Test(arguments: [
        (DTLSCertificate.KeyKind.rsa2048, DTLSCertificate.KeyKind.p256), (.p256, .rsa2048), (.rsa2048, .rsa2048),
    ])
    func certificatesOfEitherKind(client: DTLSCertificate.KeyKind, server: DTLSCertificate.KeyKind) throws {
        let pair = try DTLSPair(client: .generate(client), server: .generate(server))
        pair.handshake()
        #expect(try #require(pair.clientKeys).mirrors(#require(pair.serverKeys)))
        #expect(pair.largestDatagram <= 1_200)
    }

    @Test(arguments: [256, 300, 576, 1_200])
    func datagramsStayWithinTheMTU(mtu: Int) throws {
        let pair = try DTLSPair(client: .generate(.rsa2048), server: .generate(.rsa2048), mtu: mtu)
        pair.handshake()
        #expect(pair.isEstablished)
        #expect(pair.largestDatagram <= mtu)
        #expect(pair.largestDatagram > mtu / 2)
        pair.client.close()
        pair.run()
        #expect(pair.serverClosed)
        #expect(pair.largestDatagram <= mtu)
    }

    @Test(arguments: [true, false])
    func closeNotify(fromClient: Bool) throws {
        let pair = try DTLSPair()
        pair.handshake()
        (fromClient ? pair.client : pair.server).close()
        pair.run()
        #expect(fromClient ? pair.serverClosed : pair.clientClosed)
        // Closing again, after the peer has gone, is harmless.
        pair.client.close()
        pair.server.close()
        pair.run()
        #expect(!pair.hasFailed)
    }

    @Test
    func keysAreSaidOnce() throws {
        let pair = try DTLSPair()
        pair.handshake()
        #expect(pair.isEstablished)
        for status in [pair.client.start(), pair.client.handleTimeout(), pair.server.setRemoteFingerprints([])] {
            guard case .handshaking = status else {
                Issue.record("said \(status) after the keys")
                continue
            }
        }
    }

    @Test
    func clientDropsDatagramsBeforeItStarts() throws {
        let pair = try DTLSPair()
        pair.note(pair.server.start(), client: false)
        let other = try DTLSPair()
        other.start()
        for datagram in other.take(fromClient: true) { pair.deliver(datagram, toClient: true) }
        #expect(pair.take(fromClient: true).isEmpty)
        #expect(pair.client.counters.datagramsDropped == 1)
    }

    /// The first flight may arrive before the owner calls `start` on the server.
    @Test
    func aServerStartsWithTheFirstDatagram() throws {
        let pair = try DTLSPair()
        pair.note(pair.client.start(), client: true)
        pair.run()
        #expect(pair.isEstablished)
    }

    @Test
    func neverPrintsKeys() throws {
        let bytes = [UInt8](repeating: 0xAB, count: 28)
        let keys = try #require(SRTPKeyMaterial(profile: .aeadAES128GCM, local: bytes, remote: bytes))
        var dumped = ""
        dump(keys, to: &dumped)
        dump(DTLSStatus.established(keys), to: &dumped)
        for text in ["\(keys)", String(reflecting: keys), dumped, "\(DTLSStatus.established(keys))"] {
            #expect(!text.contains("171") && !text.lowercased().contains("ab, "))
            #expect(text.contains("aeadAES128GCM"))
        }
        #expect(SRTPKeyMaterial(profile: .aeadAES128GCM, local: [], remote: bytes) == nil)
        #expect(SRTPKeyMaterial(profile: .aes128CMSHA1_80, local: bytes, remote: bytes) == nil)
    }

    @Test(arguments: [(3, 0, 19, true), (3, 0, 21, true), (3, 0, 22, false), (3, 0, 30, false), (3, 5, 0, false)])
    func warnsAboutFaultyOpenSSL(major: Int, minor: Int, patch: Int, warns: Bool) {
        #expect((knownFaults(major: major, minor: minor, patch: patch) != nil) == warns)
    }
}
