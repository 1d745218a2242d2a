import Dispatch
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A small honest imitation of the realtime service, generation 1: control channel, WebRTC, transformed pictures.
///
/// One event loop serves all connections; every session has its own media. All calls from any thread.
package final class StandInServer: Sendable {
    private let configuration: StandInConfiguration
    private let services: ConnectionServices
    private let running = Mutex<Running?>(nil)

    private struct Running {
        let group: MultiThreadedEventLoopGroup
        let listeners: [any Channel]
        let connections: OpenChannels
    }

    /// Starts nothing yet.
    package convenience init(configuration: StandInConfiguration) {
        self.init(configuration: configuration, engine: GStreamerMediaEngine(bitrate: configuration.bitrate))
    }

    /// With media of one's own instead of GStreamer's.
    package init(configuration: StandInConfiguration, engine: any MediaEngine) {
        self.configuration = configuration
        services = ConnectionServices(board: SessionBoard(), engine: engine, log: configuration.log)
    }

    /// Blocks until connections are accepted.
    /// - Returns: the port listened on, the same one for every address.
    package func start() throws(StandInError) -> Int {
        guard running.withLock({ $0 == nil }) else { throw StandInError("the stand-in is running already") }
        let tls = try configuration.tls.map { files throws(StandInError) in try ServerTLS.context(for: files) }
        let connections = OpenChannels(limit: configuration.maximumSessionCount + 64)
        let pipeline = ChildPipeline(configuration: configuration, services: services, tls: tls)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let listener = Listener(group: group, connections: connections, install: pipeline.install)
        do {
            let (port, listeners) = try listener.listen(host: configuration.host, port: configuration.port)
            running.withLock { $0 = Running(group: group, listeners: listeners, connections: connections) }
            return port
        } catch {
            try? group.syncShutdownGracefully()
            throw StandInError("cannot listen on port \(configuration.port): \(error)")
        }
    }

    /// Says goodbye to every client, tears all media down and frees the port. Blocks for 4 s at most; idempotent.
    package func stop() {
        guard let running = running.withLock({ $0.take() }) else { return }
        for listener in running.listeners { try? listener.close().wait() }
        running.connections.closeAll(within: .seconds(2))
        _ = services.mediaGroup.wait(timeout: .now() + .seconds(2))
        try? running.group.syncShutdownGracefully()
    }

    /// All sessions in the order of their arrival, the ended ones included (the latest thousand of those).
    package var sessions: [SessionRecord] { services.board.records }

    /// Blocks the calling thread until the condition holds.
    /// - Returns: false when it did not within the time.
    package func wait(milliseconds: Int, until condition: ([SessionRecord]) -> Bool) -> Bool {
        services.board.wait(timeout: .milliseconds(milliseconds), until: condition)
    }
}

/// Why the stand-in could not start, in a sentence.
package struct StandInError: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

enum ServerTLS {
    static func context(for files: StandInConfiguration.TLSFiles) throws(StandInError) -> NIOSSLContext {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(files.certificateChain)
            let key = try NIOSSLPrivateKey(file: files.privateKey, format: .pem)
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            configuration.shutdownTimeout = .milliseconds(500)
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw StandInError("cannot use the certificate or its key: \(error)")
        }
    }
}
