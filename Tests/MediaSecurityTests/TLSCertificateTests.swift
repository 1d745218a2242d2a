// Which servers a client accepts.
import MediaSecurity
import TestSupport
import Testing

@Suite("TLS certificates", .timeLimit(.minutes(1)))
struct TLSCertificateTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var extensions = "subjectAltName=DNS:localhost"
        var host = "localhost"
        var commonName = "server"
        var days = 3
        var startDays = 0
        /// Nil: accepted.
        var code: TLSError.Code?
        /// The alert that the server receives.
        var alert: UInt8 = 0
    }

    @Test(arguments: [
        Row(testDescription: "good"),
        Row(testDescription: "trailing dot", host: "localhost."),
        Row(testDescription: "upper case", host: "LocalHost"),
        Row(testDescription: "upper case in the certificate", extensions: "subjectAltName=DNS:LOCALHOST"),
        Row(testDescription: "one of several names", extensions: "subjectAltName=DNS:a.test,DNS:localhost,IP:::1"),
        Row(
            testDescription: "A-label", extensions: "subjectAltName=DNS:xn--bcher-kva.test", host: "xn--bcher-kva.test"),
        Row(testDescription: "wildcard", extensions: "subjectAltName=DNS:*.example.test", host: "a.example.test"),
        Row(testDescription: "IPv4", extensions: "subjectAltName=IP:127.0.0.1", host: "127.0.0.1"),
        Row(testDescription: "IPv6", extensions: "subjectAltName=IP:::1", host: "::1"),
        Row(testDescription: "IPv6 with a zone", extensions: "subjectAltName=IP:fe80::1", host: "fe80::1%lo"),
        Row(
            testDescription: "server authentication",
            extensions: "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth"),
        Row(testDescription: "other host", host: "elsewhere.test", code: .wrongHost, alert: 42),
        Row(testDescription: "subdomain", host: "a.localhost", code: .wrongHost, alert: 42),
        Row(
            testDescription: "common name only", extensions: "basicConstraints=CA:FALSE", commonName: "localhost",
            code: .wrongHost, alert: 42),
        Row(
            testDescription: "common name beside an address", extensions: "subjectAltName=IP:127.0.0.1",
            commonName: "localhost", code: .wrongHost, alert: 42),
        Row(
            testDescription: "wildcard alone", extensions: "subjectAltName=DNS:*", host: "localhost", code: .wrongHost,
            alert: 42),
        Row(
            testDescription: "wildcard of a top-level domain", extensions: "subjectAltName=DNS:*.test",
            host: "example.test", code: .wrongHost, alert: 42),
        Row(
            testDescription: "wildcard of two levels", extensions: "subjectAltName=DNS:*.example.test",
            host: "a.b.example.test", code: .wrongHost, alert: 42),
        Row(
            testDescription: "wildcard of no level", extensions: "subjectAltName=DNS:*.example.test",
            host: "example.test", code: .wrongHost, alert: 42),
        Row(
            testDescription: "wildcard of a part", extensions: "subjectAltName=DNS:a*.example.test",
            host: "ab.example.test", code: .wrongHost, alert: 42),
        Row(
            testDescription: "other address", extensions: "subjectAltName=IP:127.0.0.1", host: "127.0.0.2",
            code: .wrongHost, alert: 42),
        Row(
            testDescription: "address as a name", extensions: "subjectAltName=DNS:127.0.0.1", host: "127.0.0.1",
            code: .wrongHost, alert: 42),
        Row(
            testDescription: "address as a common name", extensions: "basicConstraints=CA:FALSE", host: "127.0.0.1",
            commonName: "127.0.0.1", code: .wrongHost, alert: 42),
        Row(
            testDescription: "name of an address", extensions: "subjectAltName=IP:127.0.0.1", host: "localhost",
            code: .wrongHost, alert: 42),
        Row(testDescription: "expired", days: 5, startDays: -10, code: .expired, alert: 45),
        Row(testDescription: "not yet valid", days: 5, startDays: 2, code: .notYetValid, alert: 42),
        Row(
            testDescription: "client only", extensions: "subjectAltName=DNS:localhost\nextendedKeyUsage=clientAuth",
            code: .untrusted, alert: 43),
        Row(
            testDescription: "unknown critical extension",
            extensions: "subjectAltName=DNS:localhost\n1.2.3.4=critical,ASN1:NULL", code: .untrusted, alert: 46),
    ])
    func table(_ row: Row) throws {
        let authority = try TestAuthority()
        let files = try authority.issue(
            "server", commonName: row.commonName, extensions: row.extensions, days: row.days, startDays: row.startDays)
        for version in [nil, TLSVersion.tls12] {
            let pair = try TLSPair(authority, files, host: row.host, maximumVersion: version)
            pair.handshake()
            if let code = row.code {
                let error = try #require(pair.client.error, "\(pair.client.state)")
                #expect(error.code == code, "\(error)")
                #expect(error.verifyResult != nil)
                #expect(pair.client.facts == nil)
                #expect(pair.server.error?.code == .alert(row.alert), "\(pair.server.state)")
            } else {
                #expect(pair.client.state == .open)
                #expect(pair.server.state == .open)
                #expect(pair.client.facts?.version == version ?? .tls13)
            }
        }
    }

    /// What a chain needs besides a good name.
    struct Chain: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var authorityKey = "ec -pkeyopt ec_paramgen_curve:P-256"
        var digest = "sha256"
        var key = "ec -pkeyopt ec_paramgen_curve:P-256"
    }

    @Test(arguments: [
        Chain(testDescription: "RSA 1024", key: "rsa:1024"),
        Chain(testDescription: "SHA-1", digest: "sha1"),
        Chain(testDescription: "RSA 1024 and SHA-1", digest: "sha1", key: "rsa:1024"),
        Chain(testDescription: "authority with RSA 1024", authorityKey: "rsa:1024"),
    ])
    func weakChain(_ row: Chain) throws {
        let authority = try TestAuthority(key: row.authorityKey, digest: row.digest)
        let files = try authority.issue("server", extensions: "subjectAltName=DNS:localhost", key: row.key)
        let pair = try TLSPair(
            client: .init(roots: .only(readFile(authority.authority.certificate)), protocols: []),
            server: .init(
                certificateChainFile: files.certificate, privateKeyFile: files.key, acceptsWeakCertificate: true))
        pair.handshake()
        #expect(pair.client.error?.code == .weak, "\(pair.client.state)")
    }

    @Test(arguments: ["rsa:2048", "ec -pkeyopt ec_paramgen_curve:P-384", "ed25519"])
    func otherKeys(_ key: String) throws {
        let authority = try TestAuthority(key: key, digest: key == "ed25519" ? "default" : "sha384")
        let pair = try TLSPair(
            authority, authority.issue("server", extensions: "subjectAltName=DNS:localhost", key: key))
        pair.handshake()
        #expect(pair.client.state == .open)
    }

    @Test func rootsOfAClient() throws {
        let authority = try TestAuthority()
        let files = try authority.issue("server", extensions: "subjectAltName=DNS:localhost")
        let server = try TLSServerContext(certificateChainFile: files.certificate, privateKeyFile: files.key)
        let pem = try readFile(authority.authority.certificate)
        let stranger = try TestAuthority()
        let other = try readFile(stranger.authority.certificate)
        let rows: [(TLSClientContext.Roots, Bool)] = [
            (.only(pem), true), (.only(other), false), (.only(other + pem), true), (.only(pem + pem), true),
            (.systemAnd(pem), true), (.systemAnd(other), false),
            // Last: other roots must not have entered the system's.
            (.system, false),
        ]
        for (roots, isTrusted) in rows {
            let pair = try TLSPair(client: .init(roots: roots, protocols: []), server: server)
            pair.handshake()
            #expect((pair.client.state == .open) == isTrusted)
            if !isTrusted { #expect(pair.client.error?.code == .untrusted) }
        }
    }

    @Test func selfSigned() throws {
        let authority = try TestAuthority()
        let files = try authority.selfSigned("self")
        let untrusted = try TLSPair(authority, files)
        untrusted.handshake()
        #expect(untrusted.client.error?.code == .untrusted)
        let trusted = try TLSPair(
            client: .init(roots: .only(readFile(files.certificate)), protocols: []),
            server: .init(certificateChainFile: files.certificate, privateKeyFile: files.key))
        trusted.handshake()
        #expect(trusted.client.state == .open)
    }

    /// A certificate that is no root is trusted if a user names it.
    @Test(arguments: ["intermediate", "server"])
    func trustWithoutTheRoot(_ named: String) throws {
        let authority = try TestAuthority()
        _ = try authority.issue("intermediate", extensions: "basicConstraints=critical,CA:TRUE")
        let files = try authority.issue(
            "server", extensions: "subjectAltName=DNS:localhost", signedBy: "intermediate", includesIssuer: true)
        try authority.run("openssl x509 -in \(named).pem -out named.pem")
        let server = try TLSServerContext(certificateChainFile: files.certificate, privateKeyFile: files.key)
        let pair = try TLSPair(
            client: .init(roots: .only(readFile(authority.path("named.pem"))), protocols: []), server: server)
        pair.handshake()
        #expect(pair.client.state == .open)
        // The root alone suffices too, as the server sends what is between.
        let whole = try TLSPair(authority, files)
        whole.handshake()
        #expect(whole.client.state == .open)
    }

    @Test func incompleteChain() throws {
        let authority = try TestAuthority()
        _ = try authority.issue("intermediate", extensions: "basicConstraints=critical,CA:TRUE")
        let pair = try TLSPair(
            authority,
            authority.issue("server", extensions: "subjectAltName=DNS:localhost", signedBy: "intermediate"))
        pair.handshake()
        #expect(pair.client.error?.code == .untrusted)
    }

    @Test func signedByACertificateThatIsNoAuthority() throws {
        let authority = try TestAuthority()
        _ = try authority.issue("leaf", extensions: "subjectAltName=DNS:leaf")
        let pair = try TLSPair(
            authority,
            authority.issue(
                "server", extensions: "subjectAltName=DNS:localhost", signedBy: "leaf", includesIssuer: true))
        pair.handshake()
        #expect(pair.client.error?.code == .untrusted)
    }

    /// Files that hold no certificate, or hold a damaged one after a good one.
    @Test func filesWithoutCertificates() throws {
        let authority = try TestAuthority()
        let pem = try readFile(authority.authority.certificate)
        let key = try readFile(authority.authority.key)
        var damaged = pem
        damaged[damaged.count / 2] = UInt8(ascii: "!")
        var rows: [[UInt8]] = [[], Array("host\n".utf8), key, damaged, pem + damaged, Array(pem.dropLast(40))]
        rows.append(Array("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".utf8))
        // OpenSSL must not ask for a password on the terminal.
        let iv = String(repeating: "0A", count: 16)
        let encrypted = "-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,\(iv)\n\n"
        rows.append(Array(encrypted.utf8) + pem.dropFirst(28))
        var generator = SeededGenerator(seed: 1)
        rows.append(generator.bytes(100_000))
        for row in rows {
            for roots in [TLSClientContext.Roots.only(row), .systemAnd(row)] {
                let error = tlsError { _ = try TLSClientContext(roots: roots, protocols: []) }
                #expect(error?.code == .noCertificate)
            }
        }
        // Other things in the file do no harm.
        _ = try TLSClientContext(roots: .only(Array("A comment\n".utf8) + pem + key + pem), protocols: [])
    }

    @Test func filesOfAServer() throws {
        let authority = try TestAuthority()
        let good = authority.authority
        try authority.run("openssl ec -aes128 -passout pass:secret -in ca.key -out encrypted.key")
        let other = try authority.issue("other", extensions: "subjectAltName=DNS:localhost")
        let rows = [
            ("/nonexistent", good.key), (good.certificate, "/nonexistent"), (good.certificate, other.key),
            (good.certificate, good.certificate), (good.key, good.key), ("/", "/"), ("", ""),
            (good.certificate, authority.path("encrypted.key")),
        ]
        for (certificate, key) in rows {
            let error = tlsError {
                _ = try TLSServerContext(certificateChainFile: certificate, privateKeyFile: key)
            }
            #expect(error?.code == .setup)
            #expect(error?.library != nil)
        }
        _ = try TLSServerContext(certificateChainFile: good.certificate, privateKeyFile: good.key)
    }
}
