// In every row that must fail, the server checks that no application data followed the handshake, because the first bytes
// would contain the key.
import DecartProtocol
import DecartSession
import MediaSecurity
import Signalling
import TestSupport
import Testing

@Suite("TLS", .timeLimit(.minutes(1)), .serialized)
struct TLSTests {
    /// Expects the error, and that the client sent no application data.
    private func refuse(
        _ tls: TLSServerContext, host: String = "localhost", trust: TLSTrust, contains text: String
    ) async throws {
        try await withServer(tls: tls) { server in
            let client = try Client(port: server.port, host: host, secure: true) { $0.trust = trust }
            let error = try #require(await client.failure())
            #expect(error.isPermanent, "\(error)")
            #expect(error.stage == .tls, "\(error)")
            #expect(error.message.contains(text), "\(error)")
            #expect(error.message.contains(host))
            #expect(!error.message.contains("canary"))
            #expect(server.bytesReceived == 0)
            #expect(server.connections == 1)
        }
    }

    @Test func authorityFromAFile() async throws {
        let certificates = try Certificates()
        let tls = try certificates.server(name: "good", san: "DNS:localhost")
        for trust in [TLSTrust.only(file: certificates.path("ca.pem")), .systemAnd(file: certificates.path("ca.pem"))] {
            try await withChannel(tls: tls, host: "localhost", configure: { $0.trust = trust }) { _, channel, events in
                channel.send([65])
                #expect(await events.next() == .text([65]))
                channel.close()
                #expect(await events.next() == .closed(code: 1000, reason: ""))
            }
        }
    }

    @Test func addressInTheCertificate() async throws {
        let certificates = try Certificates()
        let tls = try certificates.server(name: "address", san: "IP:127.0.0.1")
        let trust = TLSTrust.only(file: certificates.path("ca.pem"))
        try await withChannel(tls: tls, configure: { $0.trust = trust }) { _, _, _ in }
    }

    @Test func unknownAuthority() async throws {
        let certificates = try Certificates()
        let tls = try certificates.server(name: "unknown", san: "DNS:localhost")
        try await refuse(tls, trust: .system, contains: "ca-file")
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var san = "DNS:localhost"
        var host = "localhost"
        var days = 3
        var startDays = 0
        var maximum: TLSVersion?
        /// In the error.
        var text: String
    }

    @Test(arguments: [
        Row(testDescription: "wrong host", san: "DNS:api.example", text: "for another host"),
        Row(
            testDescription: "name instead of address", san: "DNS:localhost,DNS:127.0.0.1", host: "127.0.0.1",
            text: "for another host"),
        Row(testDescription: "wildcard of another level", san: "DNS:*.localhost", text: "for another host"),
        Row(testDescription: "expired", days: 5, startDays: -10, text: "has expired"),
        Row(testDescription: "not yet valid", days: 5, startDays: 2, text: "not valid yet"),
        Row(testDescription: "too old TLS", maximum: .tls11, text: "TLS 1.2"),
    ])
    func aTrustedAuthorityIsNotEnough(_ row: Row) async throws {
        let certificates = try Certificates()
        let tls = try certificates.server(
            name: "server", san: row.san, days: row.days, startDays: row.startDays, maximum: row.maximum)
        try await refuse(tls, host: row.host, trust: .only(file: certificates.path("ca.pem")), contains: row.text)
    }

    @Test func selfSigned() async throws {
        let certificates = try Certificates()
        try certificates.run(
            "req -x509 -newkey rsa:2048 -nodes -keyout self.key -out self.pem -days 3 -subj /CN=localhost "
                + "-addext subjectAltName=DNS:localhost")
        let tls = try certificates.server(file: "self")
        try await refuse(tls, trust: .system, contains: "not trusted")
        // Positive counterpart: the same certificate is accepted if trusted explicitly.
        let trust = TLSTrust.only(file: certificates.path("self.pem"))
        try await withChannel(tls: tls, host: "localhost", configure: { $0.trust = trust }) { _, _, _ in }
    }

    @Test func signedByACertificateThatIsNoAuthority() async throws {
        let certificates = try Certificates()
        _ = try certificates.server(name: "leaf", san: "DNS:leaf")
        let tls = try certificates.server(name: "forged", san: "DNS:localhost", signedBy: "leaf", includesChain: true)
        try await refuse(tls, trust: .only(file: certificates.path("ca.pem")), contains: "not trusted")
    }

    @Test func noTLSAtAll() async throws {
        try await withServer { server in
            let client = try Client(port: server.port, host: "localhost", secure: true)
            let error = try #require(await client.failure(timeout: .seconds(1)))
            #expect(error.code == .network || error.code == .connectionTimeout)
            #expect(server.requests.isEmpty)
        }
    }

    @Test func slowHandshakeTimesOut() async throws {
        var script = Script()
        script.isDeaf = true
        try await withServer(script) { server in
            let client = try Client(port: server.port, host: "localhost", secure: true)
            let error = try #require(await client.failure(timeout: .seconds(2)))
            #expect(error.code == .connectionTimeout)
            #expect(error.message.contains("TLS handshake"), "\(error)")
        }
    }

    @Test(arguments: ["/nonexistent/ca.pem", "/dev/zero", "/", "/etc/hostname", ""])
    func badAuthorityFile(_ path: String) async throws {
        try await withServer { server in
            let client = try Client(port: server.port, secure: true) { $0.trust = .only(file: path) }
            let error = try #require(await client.failure())
            #expect(error.code == .invalidOptions && error.isPermanent)
            #expect(error.message.hasPrefix("ca-file"))
            #expect(server.connections == 0)
        }
    }
}
