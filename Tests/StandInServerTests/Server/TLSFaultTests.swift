import Glibc
import StandInServer
import Testing

/// Certificates of a temporary authority, against a client with full verification.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct TLSFaultTests {
    private func withAuthority(_ body: (StandInServer, Int, String) throws -> Void) throws {
        let file = "/tmp/decart-standin-ca-\(getpid())-\(UInt32.random(in: 0...UInt32.max)).pem"
        defer { unlink(file) }
        var configuration = StandInConfiguration()
        configuration.port = 0
        configuration.throwawayAuthority = file
        let server = StandInServer(configuration: configuration, engine: FakeMediaEngine())
        let port = try server.start()
        defer { server.stop() }
        try body(server, port, file)
    }

    /// Returns what `openssl s_client` says, which ends after the handshake.
    private func handshake(port: Int, trust: String, seconds: Int = 20) throws -> String {
        let command =
            "timeout \(seconds) openssl s_client -connect 127.0.0.1:\(port) -CAfile \(trust) -verify_return_error "
            + "-verify_hostname localhost -min_protocol TLSv1.2 2>&1 </dev/null"
        let output = try #require(popen(command, "r"))
        defer { pclose(output) }
        var (text, buffer) = ("", [UInt8](repeating: 0, count: 4_096))
        while case let count = fread(&buffer, 1, buffer.count, output), count > 0 {
            text += String(decoding: buffer[..<count], as: UTF8.self)
        }
        return text
    }

    private func isSuccess(_ text: String) -> Bool {
        // The first line is there if no certificate has come, the second if it is refused.
        text.contains("Verify return code: 0 (ok)") && text.contains("New, TLSv1.3, Cipher is TLS_")
    }

    @Test func eachCertificateIsWrongInItsWay() throws {
        try withAuthority { server, port, file in
            #expect(isSuccess(try handshake(port: port, trust: file)))
            for (kind, excerpt) in [
                // X509_V_ERR_CERT_HAS_EXPIRED, …_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, …_HOSTNAME_MISMATCH.
                (FaultKind.Certificate.expired, "verify error:num=10:"), (.ca, "verify error:num=20:"),
                (.host, "verify error:num=62:"), (.old, "alert protocol version"),
            ] {
                try server.setFaults([Fault(.tls(kind))])
                let text = try handshake(port: port, trust: file)
                #expect(text.contains(excerpt) && !isSuccess(text), "\(kind): \(text)")
            }
            try server.setFaults([])
            #expect(isSuccess(try handshake(port: port, trust: file)))
        }
    }

    @Test func theHandshakeDrips() throws {
        try withAuthority { server, port, file in
            try server.setFaults([try Fault(parsing: "slow_tls:interval=0.1")])
            #expect(!isSuccess(try handshake(port: port, trust: file, seconds: 1)))
        }
    }

    @Test func aSessionRunsAndIsResetOverTLS() throws {
        try withAuthority { server, port, file in
            try server.setFaults([try Fault(parsing: "drop_tcp_at_T:at=1")])
            let client = try TestClient(port: port, target: TestServer.target, trust: file)
            _ = try client.expectGreeting()
            #expect(try client.next() == .closed)
        }
    }
}
