import DecartProtocol
import Dispatch
import EventLoopThreads
import Glibc
import Network
import Synchronization

/// A small, honest imitation of the realtime service: control channel, direct WebRTC connections and LiveKit rooms,
/// transformed frames. `StandInServer+Faults.swift` makes it misbehave.
///
/// One thread serves all connections; every session has its own media. Call from any thread except a network thread.
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
        let listeners: Listeners
        let connections: OpenConnections
        let control: ControlEndpoint?
    }

    /// Serves the connections of all stand-ins of the process. Not one of the client's, which may be in the same process
    /// and wait for an answer.
    private static let thread = NetworkThread(name: "decart-standin")

    /// Opens no socket until `start()`.
    package convenience init(configuration: StandInConfiguration) {
        self.init(configuration: configuration, engine: GStreamerMediaEngine(options: configuration.media))
    }

    /// Uses another media engine than GStreamer's, as tests do.
    package init(configuration: StandInConfiguration, engine: any MediaEngine) {
        self.configuration = configuration
        pageAccess = configuration.servesPage ? PageAccess(host: configuration.pageHost) : nil
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
        let connections = OpenConnections(limit: configuration.maximumSessionCount + 64)
        let service = ServiceEndpoint(
            configuration: configuration, services: services, faults: faultBoard, clientTokens: clientTokens,
            replay: replay, tls: tls, connections: connections)
        let listeners = Listeners(configuration, on: Self.thread, accept: service.accept)
        do throws(StandInError) {
            let port = try Self.opening(configuration.port, "--port") { () throws(NetworkError) in
                try listeners.open()
            }
            listeners.apply(FaultPlan(configuration.faults))
            var control: ControlEndpoint?
            if let port = configuration.controlPort {
                control = try Self.opening(port, "--control") { () throws(NetworkError) in
                    try ControlEndpoint(port: port, on: Self.thread, of: self)
                }
            }
            running.withLock {
                $0 = Running(listeners: listeners, connections: connections, control: control)
            }
            return port
        } catch {
            listeners.close()
            throw error
        }
    }

    /// Names port and option in the error of a port that another program uses.
    private static func opening<Opened>(
        _ port: Int, _ option: String, _ open: () throws(NetworkError) -> Opened
    ) throws(StandInError) -> Opened {
        do throws(NetworkError) {
            return try open()
        } catch .system(EADDRINUSE) {
            throw StandInError(
                "cannot listen on port \(port): Address already in use. End the other program, or choose another "
                    + "\(option).")
        } catch .system(EACCES) {
            throw StandInError(
                "cannot listen on port \(port): Permission denied. Choose another \(option), of 1024 or more.")
        } catch .system(EADDRNOTAVAIL) {
            throw StandInError("cannot listen: the host is no address of this machine. Correct --host.")
        } catch .lookup(let failure) {
            throw StandInError(
                "cannot listen: \(NetworkError.lookup(failure).reason). Set --host to an address of this machine.")
        } catch {
            throw StandInError("cannot listen: \(error.reason)")
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
        return TLSContexts(good: try TLSContexts.context(for: files))
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
        running.control?.close()
        running.listeners.close()
        running.connections.closeAll(within: .seconds(2))
        _ = services.media.group.wait(timeout: .now() + .seconds(2))
    }

    /// Returns nil if the server is not running.
    func withRunning<Result: Sendable>(_ body: (Listeners, OpenConnections) -> Result) -> Result? {
        let parts = running.withLock { $0.map { ($0.listeners, $0.connections) } }
        return parts.map { body($0.0, $0.1) }
    }

    /// Port of the control endpoint; nil if there is none.
    package var controlPort: Int? { running.withLock { $0?.control?.port } }

    /// **Secret.** Address of the page for browsers of other machines; nil if it is for this machine only.
    package var foreignPage: String? {
        guard let pageAccess, let host = pageAccess.host, let controlPort else { return nil }
        return "http://\(BrowserGuard.plain(host).bracketed):\(controlPort)/?token=\(pageAccess.token)"
    }

    /// All sessions in the order of arrival, with the latest thousand of the ended ones.
    package var sessions: [SessionRecord] { services.board.records }

    /// Blocks the calling thread until the condition holds.
    /// - Returns: False if the condition did not hold within the timeout.
    package func wait(milliseconds: Int, until condition: ([SessionRecord]) -> Bool) -> Bool {
        services.board.wait(timeout: .milliseconds(milliseconds), until: condition)
    }
}

extension NetworkError {
    /// Why a port cannot be opened.
    fileprivate var reason: String {
        switch self {
        case .system(let code): String(cString: strerror(code))
        case .lookup(.noAnswer): "the name server does not answer"
        case .lookup(.unknownHost): "the host is unknown"
        default: "no thread or file descriptor is left"
        }
    }
}
