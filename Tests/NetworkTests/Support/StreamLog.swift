import EventLoopThreads
import Glibc
import TestSupport
import Testing

import Network

extension NetworkThread {
    /// The thread of what is tested.
    static let test = NetworkThread(name: "test")
}

extension SocketAddress {
    static func loopback(_ port: Int = 0, host: UInt8 = 1) throws -> SocketAddress {
        try #require(SocketAddress(ip: "127.0.0.\(host)", port: port))
    }
}

/// The events of a stream.
final class StreamLog: Sendable {
    struct State: Sendable {
        var bytes: [UInt8] = []
        var isConnected = false
        var isSecured = false
        /// Number of `writable`.
        var writable = 0
        /// `.some(nil)`: ended in order.
        var end: NetworkError??
        var isOver: Bool { end != nil }
    }
    private let state = Observed(State())

    var value: State { state.value }

    func wait(
        _ what: String, sourceLocation: SourceLocation = #_sourceLocation,
        until condition: @escaping @Sendable (State) -> Bool
    ) async {
        let holds = await state.wait(.seconds(40), until: condition)
        #expect(holds, "waited for \(what)", sourceLocation: sourceLocation)
    }

    /// Waits for the end; nil: in order.
    func end(sourceLocation: SourceLocation = #_sourceLocation) async -> NetworkError? {
        await wait("the end", sourceLocation: sourceLocation) { $0.isOver }
        return value.end ?? nil
    }

    /// Follows the stream, which must not be held for that. Call on its thread.
    func follow(_ stream: ByteStream, onReceive: @escaping () -> Void = {}) {
        stream.onEvent = { [state] event in
            state.change { state in
                switch event {
                case .connected: state.isConnected = true
                case .secured: state.isSecured = true
                case .received(let bytes): state.bytes += bytes
                case .writable: state.writable += 1
                case .ended(let error): state.end = .some(error)
                }
            }
            if case .received = event { onReceive() }
        }
    }
}

/// A stream that is tested, its events, and a plain socket at the other end.
struct StreamPair: Sendable {
    let stream: ByteStream
    let log = StreamLog()
    let peer: PlainPeer

    /// - Parameter isStarted: false: the stream is connected and serves nothing yet.
    init(isStarted: Bool = true) throws {
        let listener = try LoopbackSocket(stream: true)
        let (descriptor, error) = LoopbackSocket.connect(to: listener.port)
        try #require(error == 0)
        keepBuffersSmall(descriptor)
        peer = PlainPeer(acceptedBy: listener)
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        stream = ByteStream(taking: descriptor, isConnected: true, on: .test)
        onThread { [log] stream in
            log.follow(stream)
            if isStarted { stream.start() }
        }
    }

    @discardableResult
    func onThread<Result: Sendable>(_ body: @escaping @Sendable (ByteStream) -> Result) -> Result {
        NetworkThread.test.sync { [stream] in body(stream) }
    }
}
