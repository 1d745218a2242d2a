// The openssl command makes the certificates in a temporary directory. In every row that must fail, the server checks
// that no application data followed the handshake, because the first bytes would contain the key.
import DecartProtocol
import DecartSession
import Glibc
import NIOSSL
import Signalling
import Testing

/// Certificate authorities and certificates of one test.
final class Certificates {
    let directory: String

    init() throws {
        var template = Array("/tmp/decart-tls-XXXXXX".utf8CString)
        let name: String? = template.withUnsafeMutableBufferPointer {
            $0.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        directory = try #require(name)
        try run(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 3 -subj /CN=TestAuthority"
        )
    }

    deinit {
        _ = shell("rm -r '\(directory)'")
    }

    func path(_ name: String) -> String { directory + "/" + name }

    private func shell(_ command: String) -> Int32 { system("cd '\(directory)' && { \(command); } >/dev/null 2>&1") }

    func run(_ arguments: String) throws {
        try #require(shell("openssl " + arguments) == 0, "openssl \(arguments)")
    }

    /// Returns a server context with a certificate that the authority signed. `days` and `startDays` start today.
    func server(
        name: String, san: String, days: Int = 3, startDays: Int = 0, signedBy authority: String = "ca",
        key: String = "ec -pkeyopt ec_paramgen_curve:P-256", digest: String = "sha256", includesChain: Bool = false,
        minimum: TLSVersion = .tlsv12, maximum: TLSVersion? = nil
    ) throws -> NIOSSLContext {
        try run("req -newkey \(key) -nodes -keyout \(name).key -out \(name).csr -subj /CN=\(name)")
        let extensions = san.isEmpty ? "basicConstraints=CA:FALSE" : "subjectAltName=\(san)"
        try #require(shell("printf '%s\\n' '\(extensions)' > \(name).ext") == 0)
        try #require(
            shell(
                "touch index.txt && (test -f serial || echo 01 > serial) && printf '%s\\n' '[ca]' 'default_ca=d' '[d]' "
                    + "'database=index.txt' 'serial=serial' 'new_certs_dir=.' 'policy=p' 'unique_subject=no' '[p]' "
                    + "'commonName=supplied' > ca.cnf") == 0)
        let start = "$(date -u -d '\(startDays) days' +%Y%m%d%H%M%SZ)"
        let end = "$(date -u -d '\(startDays + days) days' +%Y%m%d%H%M%SZ)"
        try run(
            "ca -batch -config ca.cnf -md \(digest) -notext -cert \(authority).pem -keyfile \(authority).key "
                + "-in \(name).csr -out \(name).pem -extfile \(name).ext -startdate \(start) -enddate \(end)")
        var chain = try NIOSSLCertificate.fromPEMFile(path(name + ".pem"))
        if includesChain { chain += try NIOSSLCertificate.fromPEMFile(path(authority + ".pem")) }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: path(name + ".key"), format: .pem)))
        configuration.minimumTLSVersion = minimum
        configuration.maximumTLSVersion = maximum
        return try NIOSSLContext(configuration: configuration)
    }
}

@Suite("TLS", .timeLimit(.minutes(1)), .serialized)
struct TLSTests {
    /// Expects the error, and that the client sent no application data.
    private func refuse(
        _ tls: NIOSSLContext, host: String = "localhost", trust: TLSTrust, contains text: String
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
        var minimum = TLSVersion.tlsv12
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
        Row(testDescription: "too old TLS", minimum: .tlsv1, maximum: .tlsv11, text: "TLS 1.2"),
    ])
    func aTrustedAuthorityIsNotEnough(_ row: Row) async throws {
        let certificates = try Certificates()
        let tls = try certificates.server(
            name: "server", san: row.san, days: row.days, startDays: row.startDays, minimum: row.minimum,
            maximum: row.maximum)
        try await refuse(tls, host: row.host, trust: .only(file: certificates.path("ca.pem")), contains: row.text)
    }

    @Test func selfSigned() async throws {
        let certificates = try Certificates()
        try certificates.run(
            "req -x509 -newkey rsa:2048 -nodes -keyout self.key -out self.pem -days 3 -subj /CN=localhost "
                + "-addext subjectAltName=DNS:localhost")
        let configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.path("self.pem")).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.path("self.key"), format: .pem)))
        let tls = try NIOSSLContext(configuration: configuration)
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
