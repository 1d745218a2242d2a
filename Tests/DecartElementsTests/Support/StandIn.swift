import DecartElements
import DecartProtocol
import StandInServer
import Testing

/// A stand-in service on a free loopback port, stopped when the body returns.
struct StandIn {
    let server: StandInServer
    let port: Int
    var url: String { "ws://127.0.0.1:\(port)" }

    static let rejectedKey = "rejected-key"

    static func run<Result>(
        _ configure: (inout StandInConfiguration) -> Void = { _ in }, engine: (any MediaEngine)? = nil,
        _ body: (StandIn) throws -> Result
    ) throws -> Result {
        var configuration = StandInConfiguration()
        configuration.port = 0
        configuration.transports = MediaWay.current.served
        configuration.keys = KeyPolicy(rejected: [rejectedKey])
        configure(&configuration)
        let server =
            if let engine {
                StandInServer(configuration: configuration, engine: engine)
            } else {
                StandInServer(configuration: configuration)
            }
        let port = try server.start()
        defer { server.stop() }
        // An earlier test's stand-in may have used this port; its cached transport must not apply here.
        if configuration.port == 0 { DecartElements.forgetServices() }
        return try body(StandIn(server: server, port: port))
    }

    var sessions: [SessionRecord] { server.sessions }

    func wait(until condition: ([SessionRecord]) -> Bool) -> Bool {
        server.wait(milliseconds: 60_000, until: condition)
    }

    /// Checks that every client disconnected, and that none sent an offer before its initial state was accepted: the
    /// service would have returned the raw camera.
    func expectGoodConduct(sourceLocation: SourceLocation = #_sourceLocation) {
        let areGone = wait { $0.allSatisfy { !$0.isOpen } }
        #expect(areGone, "a session is still open", sourceLocation: sourceLocation)
        for session in sessions {
            #expect(!session.offeredBeforeState, sourceLocation: sourceLocation)
            #expect(session.frames.raw == 0, sourceLocation: sourceLocation)
            #expect(session.malformedCount == 0 && session.unknownCount == 0, sourceLocation: sourceLocation)
        }
    }
}
