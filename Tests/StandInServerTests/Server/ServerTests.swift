import DecartProtocol
import Glibc
import StandInServer
import TestSupport
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct ServerTests {
    @Test func aSessionOverTLS() throws {
        try TemporaryCertificate.with { certificate in
            try TestServer.run({
                $0.tls = .init(certificateChain: certificate.chain, privateKey: certificate.key)
            }) { server in
                let client = try TestClient(
                    port: server.port, target: TestServer.target, trust: certificate.chain)
                _ = try client.expectGreeting()
                try client.expectAccepted()
                #expect(throws: TestClient.Refused(status: 401)) {
                    try TestClient(
                        port: server.port, target: "/v1/stream?model=m", trust: certificate.chain)
                }
                // A connection without TLS fails and does not disturb the others.
                #expect(throws: (any Error).self) { try server.connect() }
                try client.send(.setImage(.passthrough))
                #expect(try client.next() == .message(.setImageAck(SetImageAck(success: true))))
                client.close()
            }
        }
    }

    @Test func missingCertificateFilesAreAnErrorAtTheStart() {
        var configuration = StandInConfiguration()
        configuration.port = 0
        configuration.tls = .init(certificateChain: "/nonexistent/cert.pem", privateKey: "/nonexistent/key.pem")
        let server = StandInServer(configuration: configuration, engine: FakeMediaEngine())
        #expect(throws: StandInError.self) { try server.start() }
    }

    @Test func aTakenPortIsAnErrorAtTheStart() throws {
        try TestServer.run { server in
            var configuration = StandInConfiguration()
            configuration.port = server.port
            let second = StandInServer(configuration: configuration, engine: FakeMediaEngine())
            let error = thrown(StandInError.self) { try second.start() }
            #expect(error?.description.contains("port \(server.port): Address already in use") == true)
            #expect(error?.description.contains("another --port") == true)
        }
    }

    @Test func itStopsAndStartsAgainOnTheSamePort() throws {
        var configuration = StandInConfiguration()
        // Not 0: between stop and start, the kernel could give that port to a connection.
        configuration.port = Int(try LoopbackSocket.freePort())
        let first = StandInServer(configuration: configuration, engine: FakeMediaEngine())
        #expect(try first.start() == configuration.port)
        let client = try TestClient(port: configuration.port, target: TestServer.target)
        first.stop()
        first.stop()
        client.close()
        let second = StandInServer(configuration: configuration, engine: FakeMediaEngine())
        #expect(try second.start() == configuration.port)
        defer { second.stop() }
        try TestClient(port: configuration.port, target: TestServer.target).close()
    }

    /// The stand-in is a library: the disposition of SIGPIPE is that of its process, which may be to end.
    @Test func theThreadBlocksSIGPIPE() throws {
        try TestServer.run { server in
            _ = try server.greeted()
            let threads = BrokenPipe.eventLoopThreads()
            #expect(threads.blocking.contains("decart-standin"))
            #expect(threads.others == [])
        }
    }

    @Test func manyClientsAtOnce() throws {
        try TestServer.run { server in
            let clients = try (0..<20).map { _ in try server.connect() }
            for (index, client) in clients.enumerated() {
                try client.send(.prompt(PromptMessage(text: "prompt \(index)", enhance: false)))
            }
            for (index, client) in clients.enumerated() {
                _ = try client.next {
                    $0 == .message(.promptAck(PromptAck(prompt: "prompt \(index)", success: true)))
                }
            }
            #expect(Set(server.server.sessions.map(\.sessionID)).count == 20)
            for client in clients { client.close() }
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
        }
    }
}

/// A self-signed certificate for localhost in a temporary directory, removed afterwards.
struct TemporaryCertificate {
    let chain: String
    let key: String

    struct Failure: Error {}

    static func with(_ body: (TemporaryCertificate) throws -> Void) throws {
        try TemporaryFolder.with { folder in
            let certificate = TemporaryCertificate(chain: folder.path("cert.pem"), key: folder.path("key.pem"))
            let status = system(
                "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
                    + "-addext subjectAltName=DNS:localhost -keyout \(certificate.key) -out \(certificate.chain) "
                    + "2>/dev/null")
            guard status == 0 else { throw Failure() }
            try body(certificate)
        }
    }
}
