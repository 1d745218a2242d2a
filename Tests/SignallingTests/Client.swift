import DecartProtocol
import DecartSession
import Signalling
import Testing

/// A channel and its events, in order.
final class Client: Sendable {
    static let key = "canary+key&with=odd#chars%/?é"

    let channel: WebSocketChannel
    private let events = EventQueue<SignallingEvent>()

    init(
        port: Int, host: String = "127.0.0.1", secure: Bool = false, roomToken: String? = nil,
        configure: (inout WebSocketChannel.Configuration) -> Void = { _ in }
    ) throws {
        let url = try Self.url(port: port, host: host, secure: secure, roomToken: roomToken)
        var configuration = WebSocketChannel.Configuration()
        configuration.closeLimit = .milliseconds(200)
        configure(&configuration)
        channel = WebSocketChannel(url: url, configuration: configuration) { [events] in events.record($0) }
    }

    static func url(
        port: Int, host: String = "127.0.0.1", secure: Bool = false, roomToken: String? = nil
    ) throws -> ServiceURL {
        let base = "\(secure ? "wss" : "ws")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
        if let roomToken {
            return try ServiceURL(
                room: base, token: try APIKey(roomToken), allowInsecure: true, options: [("protocol", "16")])
        }
        return try ServiceURL(base: base, allowInsecure: true)
            .stream(key: try APIKey(Client.key), model: try DecartModel(named: "lucy-restyle-2"))
    }

    func open(timeout: Duration = .seconds(50)) -> EventQueue<SignallingEvent> {
        channel.open(timeout: timeout)
        return events
    }

    /// Returns all events until the end, for channels that end by themselves.
    func run(
        timeout: Duration = .seconds(50), sourceLocation: SourceLocation = #_sourceLocation
    ) async -> [SignallingEvent] {
        await open(timeout: timeout).rest(sourceLocation: sourceLocation)
    }

    /// The error that ended the channel.
    func failure(
        timeout: Duration = .seconds(50), sourceLocation: SourceLocation = #_sourceLocation
    ) async -> SessionError? {
        if case .failed(let error) = await run(timeout: timeout, sourceLocation: sourceLocation).last { return error }
        return nil
    }
}

extension SignallingEvent {
    var isOpened: Bool { if case .opened = self { true } else { false } }
}
