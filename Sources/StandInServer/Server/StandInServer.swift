import Dispatch
import EventLoopThreads
import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// A small, honest imitation of the realtime service: control channel, direct WebRTC connections and LiveKit rooms,
/// transformed frames. `StandInServer+Faults.swift` makes it misbehave.
///
/// One event loop serves all connections; every session has its own media. Call from any thread except an event loop.
package final class StandInServer: Sendable {
    let configuration: StandInConfiguration
    let services: SessionServices
    let faultBoard: FaultBoard
    let clientTokens = ClientTokens()
    private let replay: ReplayBoard?
    private let running = Mutex<Running?>(nil)
    let createdAt = ContinuousClock.now
    let pageAccess: PageAccess?

    struct Running {
        let group: MultiThreadedEventLoopGroup
        let listeners: Listeners
        let connections: OpenChannels
        let control: (any Channel)?
    }

    /// Opens no socket until `start()`.
    package convenience init(configuration: StandInConfiguration) {
        self.init(configuration: configuration, engine: GStreamerMediaEngine(options: configuration.media))
    }

    /// Uses another media engine than GStreamer's, as tests do.
    package init(configuration: StandInConfiguration, engine: any MediaEngine) {
        self.configuration = configuration
        pageAccess = configuration.servesPage ? PageAccess() : nil
        services = SessionServices(
            board: SessionBoard(), viewers: ViewerBoard(), journal: Journal(showsPrompts: configuration.showsPrompts),
            rooms: RoomBoard(configuration.rooms),
            media: MediaServices(engine: engine, delay: configuration.media.delay, log: configuration.log),
            answersLatencyMarker: configuration.answersLatencyMarker, isStrict: configuration.isStrict)
        faultBoard = FaultBoard(FaultPlan(configuration.faults))
        replay = configuration.replay.map(ReplayBoard.init)
    }

    /// Blocks until connections are accepted.
    /// - Returns: The listening port, the same for every address.
    package func start() throws(StandInError) -> Int {
        guard running.withLock({ $0 == nil }) else { throw StandInError("the stand-in is running already") }
        let tls = try makeTLS()
        try check(configuration.faults)
        let connections = OpenChannels(limit: configuration.maximumSessionCount + 64)
        let pipeline = ChildPipeline(
            configuration: configuration, services: services, faults: faultBoard, clientTokens: clientTokens,
            replay: replay, tls: tls)
        let group = blockingSIGPIPE { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        let listeners = Listeners(configuration, group, connections, install: pipeline.install)
        do {
            let port = try Self.opening(configuration.port, "--port") { try listeners.open() }
            listeners.apply(FaultPlan(configuration.faults))
            let control = try configuration.controlPort.map { port in
                try Self.opening(port, "--control") { try ControlEndpoint.open(port: port, group: group, of: self) }
            }
            running.withLock {
                $0 = Running(group: group, listeners: listeners, connections: connections, control: control)
            }
            return port
        } catch {
            listeners.close()
            try? group.syncShutdownGracefully()
            throw error as? StandInError ?? StandInError("cannot listen: \(error)")
        }
    }

    /// Names port and option in the error of a port that another program uses.
    private static func opening<Opened>(_ port: Int, _ option: String, _ open: () throws -> Opened) throws -> Opened {
        do {
            return try open()
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw StandInError(
                "cannot listen on port \(port): Address already in use. End the other program, or choose another "
                    + "\(option).")
        }
    }

    private func makeTLS() throws(StandInError) -> TLSContexts? {
        if let file = configuration.throwawayAuthority {
            guard configuration.tls == nil else {
                throw StandInError("a certificate of one's own and a throwaway authority exclude each other")
            }
            return try EphemeralCA.contexts(writingCertificateTo: file)
        }
        guard let files = configuration.tls else { return nil }
        return TLSContexts(good: try ServerTLS.context(for: files))
    }

    /// Throws if a fault needs TLS that this stand-in does not have.
    func check(_ faults: [Fault]) throws(StandInError) {
        for fault in faults {
            switch fault.kind {
            case .tls where configuration.throwawayAuthority == nil:
                throw StandInError("\(fault.kind.name) needs a throwaway authority (--tls-ca)")
            case .slow(.tls) where configuration.throwawayAuthority == nil && configuration.tls == nil:
                throw StandInError("\(fault.kind.name) needs TLS (--tls-ca, or --tls-cert and --tls-key)")
            default: break
            }
        }
    }

    /// Closes every client's connection, tears all media down and frees the port. Blocks for a few seconds at most;
    /// idempotent.
    package func stop() {
        guard let running = running.withLock({ $0.take() }) else { return }
        try? running.control?.close().wait()
        running.listeners.close()
        running.connections.closeAll(within: .seconds(2))
        _ = services.media.group.wait(timeout: .now() + .seconds(2))
        try? running.group.syncShutdownGracefully()
    }

    /// Returns nil if the server is not running.
    func withRunning<Result: Sendable>(_ body: (Listeners, OpenChannels) -> Result) -> Result? {
        let parts = running.withLock { $0.map { ($0.listeners, $0.connections) } }
        return parts.map { body($0.0, $0.1) }
    }

    /// Port of the control endpoint; nil if there is none.
    package var controlPort: Int? { running.withLock { $0?.control?.localAddress?.port } }

    /// All sessions in the order of arrival, with the latest thousand of the ended ones.
    package var sessions: [SessionRecord] { services.board.records }

    /// Blocks the calling thread until the condition holds.
    /// - Returns: False if the condition did not hold within the timeout.
    package func wait(milliseconds: Int, until condition: ([SessionRecord]) -> Bool) -> Bool {
        services.board.wait(timeout: .milliseconds(milliseconds), until: condition)
    }
}
