import MediaSecurity
import Testing

@Suite(.timeLimit(.minutes(1)))
struct HandshakeTests {
    @Test
    func bothEndsGetTheSameKeys() throws {
        let pair = try DTLSPair()
        pair.start()
        pair.run()
        let client = try #require(pair.clientKeys)
        let server = try #require(pair.serverKeys)
        #expect(client.mirrors(server))
        #expect(client.profile == .aeadAES128GCM)
        #expect(pair.largestDatagram <= 1_200)
        #expect(client.description.contains("redacted"))
    }

    @Test(arguments: [
        (DTLSCertificate.KeyKind.rsa2048, DTLSCertificate.KeyKind.p256), (.p256, .rsa2048), (.rsa2048, .rsa2048),
    ])
    func certificatesOfEitherKind(client: DTLSCertificate.KeyKind, server: DTLSCertificate.KeyKind) throws {
        let pair = try DTLSPair(client: .generate(client), server: .generate(server))
        pair.start()
        pair.run()
        #expect(pair.isEstablished)
        #expect(pair.largestDatagram <= 1_200)
    }
}
