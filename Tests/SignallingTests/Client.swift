import DecartProtocol
import DecartSession
import Signalling

/// A channel and what it told, in order.
final class Client: Sendable {
    static let key = "canary+key&with=odd#chars%/?é"

    let channel: WebSocketChannel
    private let events: AsyncStream<SignallingEvent>

    init(
        port: Int, host: String = "127.0.0.1", secure: Bool = false, roomToken: String? = nil,
        configure: (inout WebSocketChannel.Configuration) -> Void = { _ in }
    ) throws {
        let base = "\(secure ? "wss" : "ws")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
        let url =
            if let roomToken {
                try ServiceURL(
                    room: base, token: try APIKey(roomToken), allowInsecure: true, options: [("protocol", "16")])
            } else {
                try ServiceURL(base: base, allowInsecure: true)
                    .stream(key: try APIKey(Client.key), model: try DecartModel(named: "lucy-restyle-2"))
            }
        var configuration = WebSocketChannel.Configuration()
        configuration.closeLimit = .milliseconds(200)
        configure(&configuration)
        let (events, continuation) = AsyncStream<SignallingEvent>.makeStream()
        self.events = events
        channel = WebSocketChannel(url: url, configuration: configuration) { event in
            continuation.yield(event)
            switch event {
            case .closed, .failed: continuation.finish()
            case .opened, .text, .binary: break
            }
        }
    }

    func open(timeout: Duration = .seconds(50)) -> AsyncStream<SignallingEvent>.Iterator {
        channel.open(timeout: timeout)
        return events.makeAsyncIterator()
    }

    /// Everything until the end; for channels that end by themselves.
    func run(timeout: Duration = .seconds(50)) async -> [SignallingEvent] {
        var iterator = open(timeout: timeout)
        var all: [SignallingEvent] = []
        while let event = await iterator.next() { all.append(event) }
        return all
    }

    /// The error that ended it.
    func failure(timeout: Duration = .seconds(50)) async -> SessionError? {
        if case .failed(let error) = await run(timeout: timeout).last { return error }
        return nil
    }
}

extension SignallingEvent {
    var isOpened: Bool { if case .opened = self { true } else { false } }
}
