import Glibc
import NIOCore
import NIOPosix
import NIOSSL
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

    /// Returns the error that ended the handshake; nil if it completed.
    private func handshake(port: Int, trust: String, seconds: Int64 = 20) throws -> String? {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .file(trust)
        configuration.minimumTLSVersion = .tlsv12
        let context = try NIOSSLContext(configuration: configuration)
        let loop = TestLoop.group.next()
        let done = loop.makePromise(of: String?.self)
        let limit = loop.scheduleTask(in: .seconds(seconds)) { done.succeed("timed out") }
        let channel = try ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: context, serverHostname: "localhost"))
                    try channel.pipeline.syncOperations.addHandler(HandshakeWitness(done))
                }
            }
            .connect(host: "127.0.0.1", port: port).wait()
        defer {
            limit.cancel()
            channel.close(promise: nil)
        }
        return try done.futureResult.wait()
    }

    @Test func eachCertificateIsWrongInItsWay() throws {
        try withAuthority { server, port, file in
            #expect(try handshake(port: port, trust: file) == nil)
            for (kind, excerpt) in [
                (FaultKind.Certificate.expired, "CERTIFICATE_VERIFY_FAILED"), (.ca, "CERTIFICATE_VERIFY_FAILED"),
                (.host, "failedToValidateHostname"), (.old, "PROTOCOL_VERSION"),
            ] {
                try server.setFaults([Fault(.tls(kind))])
                let failure = try handshake(port: port, trust: file)
                #expect(failure?.contains(excerpt) == true, "\(kind): \(failure ?? "none")")
            }
            try server.setFaults([])
            #expect(try handshake(port: port, trust: file) == nil)
        }
    }

    @Test func theHandshakeDrips() throws {
        try withAuthority { server, port, file in
            try server.setFaults([try Fault(parsing: "slow_tls:interval=0.1")])
            #expect(try handshake(port: port, trust: file, seconds: 1) == "timed out")
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

private final class HandshakeWitness: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let done: EventLoopPromise<String?>

    init(_ done: EventLoopPromise<String?>) { self.done = done }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if String(describing: event).contains("handshakeCompleted") { done.succeed(nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        done.succeed(String(describing: error))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { done.succeed("closed") }
}
