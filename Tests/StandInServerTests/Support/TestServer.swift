import DecartProtocol
import StandInServer
import Synchronization
import Testing

/// A running stand-in with fake media and a captured log; stopped when the body returns.
struct TestServer {
    let server: StandInServer
    let engine: FakeMediaEngine
    let port: Int
    private let lines: LogLines
    private let clients = Clients()

    static let target = "/v1/stream?api_key=test-key&model=lucy-2.5"

    /// Overrides the configuration's port and log.
    static func run(
        _ configure: (inout StandInConfiguration) throws -> Void = { _ in }, _ body: (TestServer) throws -> Void
    ) throws {
        let lines = LogLines()
        var configuration = StandInConfiguration()
        try configure(&configuration)
        configuration.port = 0
        configuration.log = { lines.add($0) }
        let engine = FakeMediaEngine()
        let server = StandInServer(configuration: configuration, engine: engine)
        let port = try server.start()
        let running = TestServer(server: server, engine: engine, port: port, lines: lines)
        defer {
            running.clients.close()
            server.stop()
        }
        try body(running)
    }

    var log: [String] { lines.all }

    /// Connects a client, which is closed at the end at the latest.
    func connect(_ target: String = TestServer.target) throws -> TestClient {
        clients.add(try TestClient(port: port, target: target))
    }

    /// Connects and receives the greeting.
    func greeted(_ target: String = TestServer.target) throws -> TestClient {
        let client = try connect(target)
        _ = try client.expectGreeting()
        return client
    }

    /// Connects, receives the greeting, and exchanges offer and answer: the state before media flow.
    func negotiate() throws -> (client: TestClient, media: FakeMedia) {
        let client = try greeted()
        try client.send(.offer(sdp: "v=0"))
        try client.awaitAnswer()
        guard let media = engine.sessions.last else { throw TestClient.TimedOut() }
        return (client, media)
    }

    /// The same, and one frame, with which the generation starts.
    func generate() throws -> (client: TestClient, media: FakeMedia) {
        let (client, media) = try negotiate()
        media.paint()
        #expect(try client.next() == .message(.generationStarted))
        return (client, media)
    }
}

private final class Clients: Sendable {
    private let all = Mutex<[TestClient]>([])

    func add(_ client: TestClient) -> TestClient {
        all.withLock { $0.append(client) }
        return client
    }

    func close() { for client in all.withLock({ $0 }).reversed() { client.close() } }
}

private final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func add(_ line: String) { lines.withLock { $0.append(line) } }
}

/// Runs `body` with a server and the port of its control endpoint.
func withControl(
    _ configure: (inout StandInConfiguration) -> Void = { _ in }, _ body: (TestServer, Int) throws -> Void
) throws {
    try TestServer.run({
        $0.controlPort = 0
        configure(&$0)
    }) { server in try body(server, try #require(server.server.controlPort)) }
}

/// Runs `body` with a stand-in that has real media.
func withMedia(
    _ configure: (inout StandInConfiguration) -> Void = { _ in }, _ body: (StandInServer, Int) throws -> Void
) throws {
    var configuration = StandInConfiguration()
    configuration.port = 0
    configure(&configuration)
    let server = StandInServer(configuration: configuration)
    let port = try server.start()
    defer { server.stop() }
    try body(server, port)
}
